package sockets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const tcp = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     
   0: 0100007F:2803 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 33557 1 000000009f5b7c3a 100 0 0 10 0                     
   1: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 33558 1 00000000c0ffee00 100 0 0 10 0                     
   2: 0A02000F:280B 0A020002:C5A2 01 00000000:00000000 02:000A3B5C 00000000     0        0 33559 2 0000000012345678 20 4 30 10 -1                    
`

const tcp6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
`

func TestListenersAreFoundByPort(t *testing.T) {
	inode, ok := Listener(tcp, 10250)
	require.True(t, ok)
	require.EqualValues(t, 33558, inode)
	inode, ok = Listener(tcp6, 10250)
	require.True(t, ok)
	require.EqualValues(t, 4711, inode)
	_, ok = Listener(tcp, 10251)
	require.False(t, ok, "a connection isn't a listener")
	_, ok = Listener("", 1)
	require.False(t, ok)
}

func FuzzListenerNeverPanics(f *testing.F) {
	f.Add(tcp, uint16(10250))
	f.Fuzz(func(_ *testing.T, table string, port uint16) { Listener(table, port) })
}

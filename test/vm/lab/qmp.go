package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// qmp gives the guest's machine a command (QEMU Machine Protocol) and returns
// its answer.
func (g *Guest) qmp(ctx context.Context, command string, args map[string]any) (json.RawMessage, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", g.qmpSocket())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	answers := json.NewDecoder(c)
	var greeting json.RawMessage
	if err := answers.Decode(&greeting); err != nil {
		return nil, err
	}
	var answer json.RawMessage
	for _, call := range []map[string]any{{"execute": "qmp_capabilities"}, {"execute": command, "arguments": args}} {
		if _, err := c.Write([]byte(jsonText(call))); err != nil {
			return nil, err
		}
		for answer = nil; answer == nil; {
			// Events come in between.
			var m struct {
				Return json.RawMessage
				Error  *struct{ Class, Desc string }
			}
			if err := answers.Decode(&m); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", command, g.Name, err)
			}
			if m.Error != nil {
				return nil, fmt.Errorf("%s of %s: %s", command, g.Name, m.Error.Desc)
			}
			answer = m.Return
		}
	}
	return answer, nil
}

// jsonText is v as JSON; v is made of maps, strings and numbers.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

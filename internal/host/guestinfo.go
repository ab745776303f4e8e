package host

import (
	"context"
	"strings"

	"nodeagent/internal/fail"
	"nodeagent/internal/join/token"
)

// rpctool is the program of open-vm-tools that talks to the hypervisor.
const rpctool = "vmware-rpctool"

// spent is what a used token is overwritten with. The token itself is never an
// argument.
const spent = "used"

// readGuestInfo reads the token document that is kept in the virtual machine's
// configuration.
func (l *Linux) readGuestInfo(ctx context.Context, key string) (token.Document, error) {
	r, err := l.exec(ctx, program{name: rpctool, args: []string{"info-get guestinfo." + key}, timeout: tryLimit})
	switch {
	case fail.KindOf(err) == fail.Timeout: // its text has the last line of output
		return token.Document{}, fail.New(fail.Step, "see whether it hangs when run by hand", "%s did not answer within %s", rpctool, tryLimit)
	case err != nil:
		return token.Document{}, err
	}
	text := strings.TrimSpace(string(r.stdout))
	switch {
	case r.exit != 0 && strings.Contains(r.text(), "No value"), r.exit == 0 && text == "":
		return token.Document{}, fail.New(fail.Step, "set it from outside: govc vm.change -vm NAME -e guestinfo."+key+"=…, or in the virtual machine's advanced configuration", "guestinfo.%s has no value", key)
	case r.exit != 0:
		return token.Document{}, fail.New(fail.Step, "it works only in a virtual machine of VMware's, with open-vm-tools", "%s can't read guestinfo.%s (exit status %d)", rpctool, key, r.exit)
	case text == spent:
		return token.Document{}, fail.New(fail.Step, "put a new token there: kubeadm token create --print-join-command", "the token in guestinfo.%s was used before and has been overwritten", key)
	}
	d, err := token.Parse([]byte(text))
	if err != nil {
		return d, fail.Wrap(fail.KindOf(err), err, fail.HintOf(err), "guestinfo.%s", key)
	}
	return d, nil
}

// spendGuestInfo overwrites a token that has been used.
func (l *Linux) spendGuestInfo(ctx context.Context, key string) error {
	r, err := l.exec(ctx, program{name: rpctool, args: []string{"info-set guestinfo." + key + " " + spent}, timeout: tryLimit})
	if err == nil && r.exit != 0 {
		err = fail.New(fail.Step, "overwrite it from outside: govc vm.change -vm NAME -e guestinfo."+key+"="+spent, "the used token in guestinfo.%s can't be overwritten (exit status %d)", key, r.exit)
	}
	return err
}

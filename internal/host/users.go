package host

import (
	"context"
	"path"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// account runs one of the programs of shadow-utils. They wait for each other by
// lock files, write their databases whole and tell caches. nameInUse is the
// status of a name that another source of names has (useradd(8), groupadd(8)).
func (l *Linux) account(ctx context.Context, what string, p program) error {
	const nameInUse = 9
	r, err := l.exec(ctx, p)
	switch {
	case err != nil:
		return err
	case r.exit == 0:
		return nil
	case r.exit == nameInUse && strings.HasSuffix(p.name, "add"):
		database := map[string]string{"useradd": "passwd", "groupadd": "group"}[p.name]
		name := p.args[len(p.args)-1]
		return fail.New(fail.Step, "see where the name comes from (getent "+database+" "+name+"; /etc/nsswitch.conf), and take another one", "%s: the name is taken, and not in /etc/%s: %s", what, database, r.last())
	}
	return fail.New(fail.Step, "mend what it complains of (pwck -r; grpck -r; ls -l /etc/*.lock), and run again", "%s failed: %s ended with status %d: %s", what, p.name, r.exit, r.last())
}

func (l *Linux) applyAddGroup(ctx context.Context, c change.AddGroup, _ func(string)) error {
	return l.account(ctx, c.Summary(), program{name: "groupadd", args: []string{"--", c.Name}})
}

// applyAddUser gives the account a password field that no password matches and
// that isn't the mark of a locked one: an sshd without PAM refuses even keys to
// an account whose field begins with an exclamation mark.
func (l *Linux) applyAddUser(ctx context.Context, c change.AddUser, _ func(string)) error {
	if err := makeDirs(path.Dir(c.Home)); err != nil { // older versions of useradd make the last directory only
		return err
	}
	args := []string{"-m", "-d", c.Home, "-s", c.Shell, "-g", c.Group, "-p", "*"}
	if len(c.Groups) > 0 {
		args = append(args, "-G", strings.Join(c.Groups, ","))
	}
	if c.Comment != "" {
		args = append(args, "-c", c.Comment)
	}
	return l.account(ctx, "adding user "+c.Name, program{name: "useradd", args: append(args, "--", c.Name)})
}

func (l *Linux) applyChangeUser(ctx context.Context, c change.ChangeUser, _ func(string)) error {
	for _, g := range c.Leave {
		if err := l.account(ctx, "taking user "+c.Name+" out of "+g, program{name: "gpasswd", args: []string{"-d", c.Name, g}}); err != nil {
			return err
		}
	}
	var args []string
	if len(c.Groups) > 0 {
		args = append(args, "-a", "-G", strings.Join(c.Groups, ","))
	}
	if c.Comment != nil {
		args = append(args, "-c", *c.Comment)
	}
	if len(args) == 0 {
		return nil
	}
	return l.account(ctx, "changing user "+c.Name, program{name: "usermod", args: append(args, "--", c.Name)})
}

// applySetPassword hands the hash over through standard input. A hash that is
// to be locked is set with passwd(1)'s mark before it, so that it is never
// valid for a moment.
func (l *Linux) applySetPassword(ctx context.Context, c change.SetPassword, _ func(string)) error {
	switch {
	case c.Sets:
		field := c.Hash
		if c.Lock {
			field = "!" + field
		}
		return l.account(ctx, c.Summary(), program{name: "chpasswd", args: []string{"-e"}, stdin: []byte(c.User + ":" + field + "\n")})
	case c.Lock:
		return l.account(ctx, c.Summary(), program{name: "usermod", args: []string{"-L", "--", c.User}})
	}
	// usermod takes one mark away; passwd -l of some distributions sets two.
	for range 3 {
		if err := l.account(ctx, c.Summary(), program{name: "usermod", args: []string{"-U", "--", c.User}}); err != nil {
			return err
		}
		if !strings.Contains("\n"+l.text("/etc/shadow"), "\n"+c.User+":!") {
			break
		}
	}
	return nil
}

// checks are the programs that may be asked about a file's content: how they
// read it from standard input.
var checks = map[string][]string{"visudo": {"-cf", "-"}}

// check asks a program about content before it is written where it would take
// effect. A host without the program has nothing that reads the file either.
func (l *Linux) check(ctx context.Context, c change.WriteFile) error {
	args, known := checks[c.Check]
	if !known {
		return nil
	}
	if _, err := l.LookPath(c.Check); err != nil {
		return nil
	}
	r, err := l.exec(ctx, program{name: c.Check, args: args, stdin: []byte(c.Content)})
	if err == nil && r.exit != 0 {
		said, _, _ := strings.Cut(r.text(), "\n") // then the line itself, and a mark below it
		err = fail.New(fail.Usage, "correct the rule; sudoers(5) has the grammar", "%s is not written: %s does not accept it: %s", c.Path, c.Check, said)
	}
	return err
}

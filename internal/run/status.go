package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// Running is the note in the lock file of a run that goes on.
type Running struct {
	Pid     int       `json:"pid"`
	Run     string    `json:"run"`
	Command string    `json:"command"` // up, reset
	Step    string    `json:"step"`
	Change  string    `json:"change,omitempty"`
	Since   time.Time `json:"since"`
}

// Status is the current run, if any, and the last finished one, if any.
type Status struct {
	Running *Running `json:"running,omitempty"`
	LastRun *LastRun `json:"lastRun,omitempty"`
}

// ReadStatus reads what runs leave behind; it takes no lock and changes nothing.
func ReadStatus(v host.View) (Status, error) {
	var s Status
	b, err := v.ReadFile(LastRunPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if len(b) > 0 {
		s.LastRun = &LastRun{}
		if err := json.Unmarshal(b, s.LastRun); err != nil {
			return s, err
		}
	}
	b, err = v.ReadFile(LockPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	// A run empties the note when it ends; one that was killed leaves it.
	if note := strings.TrimSpace(string(b)); note != "" {
		var r Running
		if json.Unmarshal([]byte(note), &r) == nil && alive(v, r.Pid) {
			s.Running = &r
		}
	}
	return s, nil
}

// alive tells whether a process of that id exists and is a nodeagent.
func alive(v host.View, pid int) bool {
	b, err := v.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.HasPrefix(string(b), "nodeagent")
}

// locked tells of the run that holds the lock: its process and its step.
func locked(err error) error {
	var held host.Held
	if !errors.As(err, &held) {
		return err
	}
	who := ""
	var r Running
	if json.Unmarshal([]byte(held.Note), &r) == nil && r.Pid != 0 {
		who = fmt.Sprintf(": process %d in step %s", r.Pid, r.Step)
		if r.Change != "" {
			who += " (" + r.Change + ")"
		}
	}
	return fail.New(fail.Locked, "watch it with: nodeagent status", "%s%s", held.Error(), who)
}

package host

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

func shell(t *testing.T, script string) (result, error) {
	t.Helper()
	return New().exec(t.Context(), program{name: "sh", args: []string{"-c", script}, timeout: time.Minute})
}

func TestAProgramThatASignalEndedIsOneSentence(t *testing.T) {
	_, err := shell(t, "kill -KILL $$")
	require.EqualError(t, err, "sh was ended by signal 9 (killed) before it was done")
	require.Contains(t, fail.HintOf(err), "memory")
	_, err = shell(t, "kill -SEGV $$")
	require.ErrorContains(t, err, "segmentation fault")
	require.NotContains(t, fail.HintOf(err), "memory")
	r, err := shell(t, "exit 9")
	require.NoError(t, err)
	require.Equal(t, 9, r.exit)
}

func TestProgramsGetNothingOfTheCallersEnvironment(t *testing.T) {
	t.Setenv("LD_PRELOAD", "/nonexistent.so")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir())
	r, err := New().exec(t.Context(), program{name: "env"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"PATH=" + strings.Join(searchPath, ":"), "LC_ALL=C", "HOME=/root"}, strings.Fields(string(r.stdout)))
	r, err = shell(t, "pwd; cat")
	require.NoError(t, err)
	require.Equal(t, []string{"/"}, strings.Fields(string(r.stdout)), "the working directory, and an empty stdin")
}

// A program that a package's script leaves behind must not outlive what was
// cut short, and must not make a success a failure.
func TestWhatAProgramStartedEndsWithItWhenItIsCutShort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := New().exec(ctx, program{name: "sh", args: []string{"-c", "(trap '' TERM; while :; do sleep 1; done) & echo $! >" + file + "; echo up; wait"},
		line: func(string) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return gone(pid) }, time.Minute, 10*time.Millisecond)
}

// gone counts a zombie that nobody has reaped yet.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestADaemonThatHoldsTheOutputIsNoFailure(t *testing.T) {
	r, err := shell(t, "sleep 60 & echo $!")
	require.NoError(t, err)
	require.Zero(t, r.exit)
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.stdout)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it lives on")
}

func TestOutputIsBounded(t *testing.T) {
	var lines int
	r, err := New().exec(t.Context(), program{name: "sh", args: []string{"-c", "head -c 200000000 /dev/zero; echo; echo end"}, line: func(string) { lines++ }})
	require.NoError(t, err)
	require.Len(t, r.stdout, maxOutput)
	require.NotZero(t, lines)
}

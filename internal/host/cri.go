package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"nodeagent/internal/fail"
)

// criTime bounds one question to a runtime.
const criTime = 5 * time.Second

// maxCRIAnswer bounds an answer in bytes: gRPC's own default is 4 MiB, kubelet
// takes 16.
const maxCRIAnswer = 16 << 20

// gRPC statuses that tell something here (grpc's codes.Code).
const (
	grpcUnimplemented = "12"
	grpcUnavailable   = "14"
)

// CRI asks a runtime for its name and version.
func (l *Linux) CRI(ctx context.Context, socket string) (RuntimeVersion, error) {
	if !l.Live() {
		return RuntimeVersion{}, ErrUnobservable
	}
	// VersionRequest.version (1) is the client's version of the kubelet's runtime
	// API, always "0.1.0" from kubelet.
	data, err := callCRI(ctx, socket, "Version", criTime, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "0.1.0"))
	if err != nil {
		return RuntimeVersion{}, err
	}
	v, err := parseVersionResponse(data)
	if err != nil {
		return v, fmt.Errorf("the answer of %s: %w", socket, err)
	}
	return v, nil
}

// callCRI calls a method of runtime.v1.RuntimeService and returns the framed
// answer. gRPC is HTTP/2 with framed messages, and the few messages that are
// needed have a handful of strings: that needs no library.
func callCRI(ctx context.Context, socket, method string, limit time.Duration, message []byte) ([]byte, error) {
	path := strings.TrimPrefix(socket, "unix://")
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/runtime.v1.RuntimeService/"+method, bytes.NewReader(frame(message)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, criUnreached(path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxCRIAnswer))
	if err != nil {
		return nil, criUnreached(path, err)
	}
	// An answer without a message has its trailers in the header.
	status, text := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" {
		status, text = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if status != "0" {
		return nil, criRefused(path, resp.StatusCode, status, text)
	}
	return data, nil
}

// frame puts gRPC's prefix before a message: not compressed, and its length.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// unframe returns the message behind gRPC's prefix.
func unframe(data []byte) ([]byte, error) {
	if len(data) < 5 || data[0] != 0 || int(binary.BigEndian.Uint32(data[1:5])) != len(data)-5 {
		return nil, errors.New("not one gRPC message")
	}
	return data[5:], nil
}

// parseVersionResponse reads a framed VersionResponse: runtime_name is field 2,
// runtime_version field 3.
func parseVersionResponse(data []byte) (RuntimeVersion, error) {
	b, err := unframe(data)
	if err != nil {
		return RuntimeVersion{}, err
	}
	var v RuntimeVersion
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return v, protowire.ParseError(n)
		}
		b = b[n:]
		if kind == protowire.BytesType && (field == 2 || field == 3) {
			s, n := protowire.ConsumeString(b)
			if n < 0 {
				return v, protowire.ParseError(n)
			}
			if field == 2 {
				v.Name = s
			} else {
				v.Version = strings.TrimPrefix(s, "v")
			}
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return v, protowire.ParseError(n)
		}
		b = b[n:]
	}
	if v.Name == "" {
		return v, errors.New("no runtime name in it")
	}
	return v, nil
}

func criUnreached(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail.New(fail.Step, "start the runtime, or correct spec.runtime.socket", "no runtime has a socket at %s", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail.New(fail.Step, "see why the runtime is down: journalctl -u containerd", "nothing listens on %s", path)
	case errors.Is(err, fs.ErrPermission):
		return fail.New(fail.Step, "run as root", "no permission to use %s", path)
	}
	return fail.Wrap(fail.Step, err, "see what the runtime does: journalctl -u containerd", "%s does not answer", path)
}

// criRefused explains a gRPC status. Unimplemented means a runtime without its
// CRI service, as when the plugin is disabled or failed to load.
func criRefused(path string, httpStatus int, status, message string) error {
	if text, err := url.PathUnescape(message); err == nil {
		message = text
	}
	switch status {
	case grpcUnimplemented:
		return fail.New(fail.Step, "look for cri in disabled_plugins of /etc/containerd/config.toml, and for why the plugin did not load: journalctl -u containerd",
			"the runtime at %s runs, but its CRI service is off: %s", path, message)
	case grpcUnavailable:
		return fail.New(fail.Step, "see what the runtime does: journalctl -u containerd", "the runtime at %s is not ready: %s", path, message)
	case "":
		return fail.New(fail.Step, "correct spec.runtime.socket", "what listens on %s is no CRI runtime (it answered HTTP status %s)", path, strconv.Itoa(httpStatus))
	}
	return fail.New(fail.Step, "see what the runtime does: journalctl -u containerd", "the runtime at %s refused with gRPC status %s: %s", path, status, message)
}

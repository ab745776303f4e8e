package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyFetchToken(ctx context.Context, c change.FetchToken, progress func(string)) error {
	panic("FetchToken")
}
func (l *Linux) applyJoin(ctx context.Context, c change.Join, progress func(string)) error {
	panic("Join")
}

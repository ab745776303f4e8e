package host

import (
	"context"
)

func (l *Linux) BlockDevices(ctx context.Context) ([]BlockDevice, error) { panic("BlockDevices") }

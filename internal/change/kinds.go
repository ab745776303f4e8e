package change

import (
	"encoding/json"
	"fmt"
)

// kinds is everything this binary can do to a host, each with how it is read
// back from a journal. What a kind is, is in the file of its subject.
var kinds = map[string]func(json.RawMessage) (Change, error){
	"WriteFile":       as[WriteFile],
	"RemoveFile":      as[RemoveFile],
	"SetHostname":     as[SetHostname],
	"SetInterface":    as[SetInterface],
	"UpdateTrust":     as[UpdateTrust],
	"WaitClock":       as[WaitClock],
	"AddGroup":        as[AddGroup],
	"AddUser":         as[AddUser],
	"ChangeUser":      as[ChangeUser],
	"SetPassword":     as[SetPassword],
	"AuthorizeKeys":   as[AuthorizeKeys],
	"ProbeRepository": as[ProbeRepository],
	"ImportKeys":      as[ImportKeys],
	"InstallPackages": as[InstallPackages],
	"InstallArchive":  as[InstallArchive],
	"SwapOff":         as[SwapOff],
	"MaskUnit":        as[MaskUnit],
	"SetUnit":         as[SetUnit],
	"LoadModule":      as[LoadModule],
	"SetSysctl":       as[SetSysctl],
	"MakeFilesystem":  as[MakeFilesystem],
	"Mount":           as[Mount],
	"EmptyFilesystem": as[EmptyFilesystem],
	"LinkDisk":        as[LinkDisk],
	"UnlinkDisk":      as[UnlinkDisk],
	"Relabel":         as[Relabel],
	"AllowPorts":      as[AllowPorts],
	"WaitRoute":       as[WaitRoute],
	"FetchToken":      as[FetchToken],
	"DropToken":       as[DropToken],
	"Join":            as[Join],
	"LabelNode":       as[LabelNode],
	"WaitReady":       as[WaitReady],
	"RunHook":         as[RunHook],
	"RestoreFile":     as[RestoreFile],
	"RevokeKeys":      as[RevokeKeys],
	"SwapOn":          as[SwapOn],
	"UnmaskUnit":      as[UnmaskUnit],
	"RemoveKeys":      as[RemoveKeys],
	"RemovePackages":  as[RemovePackages],
	"RemoveArchive":   as[RemoveArchive],
	"ClosePorts":      as[ClosePorts],
	"Unmount":         as[Unmount],
	"StopPods":        as[StopPods],
	"UnmountVolumes":  as[UnmountVolumes],
	"RemoveState":     as[RemoveState],
	"ResetInterface":  as[ResetInterface],
	"CleanNetwork":    as[CleanNetwork],
}

func as[C Change](raw json.RawMessage) (Change, error) {
	var c C
	err := json.Unmarshal(raw, &c)
	return c, err
}

// Decode reads what Encode wrote; secret content is not there any more, and
// summaries are those of the kind.
func Decode(raw json.RawMessage) (Change, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	read, ok := kinds[head.Kind]
	if !ok {
		return nil, fmt.Errorf("this version knows no change of kind %q", head.Kind)
	}
	return read(raw)
}

func (WriteFile) sealed()       {}
func (RemoveFile) sealed()      {}
func (SetHostname) sealed()     {}
func (SetInterface) sealed()    {}
func (UpdateTrust) sealed()     {}
func (WaitClock) sealed()       {}
func (AddGroup) sealed()        {}
func (AddUser) sealed()         {}
func (ChangeUser) sealed()      {}
func (SetPassword) sealed()     {}
func (AuthorizeKeys) sealed()   {}
func (ProbeRepository) sealed() {}
func (ImportKeys) sealed()      {}
func (InstallPackages) sealed() {}
func (InstallArchive) sealed()  {}
func (SwapOff) sealed()         {}
func (MaskUnit) sealed()        {}
func (SetUnit) sealed()         {}
func (LoadModule) sealed()      {}
func (SetSysctl) sealed()       {}
func (MakeFilesystem) sealed()  {}
func (Mount) sealed()           {}
func (EmptyFilesystem) sealed() {}
func (LinkDisk) sealed()        {}
func (UnlinkDisk) sealed()      {}
func (Relabel) sealed()         {}
func (AllowPorts) sealed()      {}
func (WaitRoute) sealed()       {}
func (FetchToken) sealed()      {}
func (DropToken) sealed()       {}
func (Join) sealed()            {}
func (LabelNode) sealed()       {}
func (WaitReady) sealed()       {}
func (RunHook) sealed()         {}
func (RestoreFile) sealed()     {}
func (RevokeKeys) sealed()      {}
func (SwapOn) sealed()          {}
func (UnmaskUnit) sealed()      {}
func (RemoveKeys) sealed()      {}
func (RemovePackages) sealed()  {}
func (RemoveArchive) sealed()   {}
func (ClosePorts) sealed()      {}
func (Unmount) sealed()         {}
func (StopPods) sealed()        {}
func (UnmountVolumes) sealed()  {}
func (RemoveState) sealed()     {}
func (ResetInterface) sealed()  {}
func (CleanNetwork) sealed()    {}

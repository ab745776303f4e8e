package change

// Everything this binary can do to a host; what each kind is, is in the file of
// its subject.

func (WriteFile) sealed()       {}
func (RemoveFile) sealed()      {}
func (SetHostname) sealed()     {}
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
func (Relabel) sealed()         {}
func (AllowPorts) sealed()      {}
func (WaitRoute) sealed()       {}
func (FetchToken) sealed()      {}
func (Join) sealed()            {}
func (WaitReady) sealed()       {}
func (RunHook) sealed()         {}

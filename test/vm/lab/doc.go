// Package lab is a real Kubernetes lab on one machine, for the guest suites.
//
// [Prepare] builds and caches what a run needs: the Kubernetes, etcd and
// containerd binaries, signed RPM repositories, a guest root file system with
// its kernel, and small container images. [Enter] moves the process into
// namespaces of its own, so that nothing on the host is touched and everything
// ends with it. [Start] then brings up a LAN (a bridge, DHCP, DNS, HTTP), on
// which [Lab.StartControlPlane] runs a control plane as plain processes and
// [Lab.NewGuest] describes virtual machines that are reached by sshd.
//
// Every wait polls a condition up to a deadline, and only processes that the
// lab started are ended, by their id.
package lab

# Removed, not replaced by another version. A run that goes on ends at its next
# safe point; what it has done stays (nodeagent reset takes it back).
if [ "$1" = 0 ]; then
	systemctl --no-reload disable nodeagent.service >/dev/null 2>&1 || :
	if [ -d /run/systemd/system ]; then systemctl stop nodeagent.service >/dev/null 2>&1 || :; fi
fi

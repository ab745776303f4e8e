#!/bin/sh
# A stand-in for tdnf 3.6: it reads tdnf's options and answers with tdnf's words
# and exit statuses, where those were seen of the real program; dnf does the
# work, without dnf's own features (excludes of repositories, version locks,
# fetching signing keys for metadata).
set -u
dnf="/usr/lib/lab/dnf --config=/etc/tdnf/tdnf.conf --setopt=reposdir=/etc/yum.repos.d --setopt=cachedir=/var/cache/tdnf --disableexcludes=all --disableplugin=*"

# end CODE TEXT: what tdnf prints last; its exit status is the code modulo 256.
end() {
	echo "Error($1) : $2" >&2
	exit $(($1 % 256))
}

verb= yes= refresh= packages=
for arg; do
	case $arg in
	-y | --assumeyes) yes=--assumeyes ;;
	-q | --quiet | --disableexcludes | --nogpgcheck) ;;
	--refresh) refresh=--refresh ;;
	-*)
		echo "No such option: ${arg%%=*}. Please use /usr/bin/tdnf --help" >&2
		end 908 "Command line error: option is invalid."
		;;
	*) if [ -z "$verb" ]; then verb=$arg; else packages="$packages $arg"; fi ;;
	esac
done
[ "$(id -u)" = 0 ] || end 1601 "Operation not permitted. You have to be root."

case $verb in
install | reinstall | erase | remove | makecache | clean) ;;
*) end 1, "the stand-in has no $verb" ;;
esac
[ "$verb" != install ] || [ -n "$packages" ] || end 1001 "Package name expected but was not provided"

# A repository whose metadata must be signed is refused until its key is in the
# RPM database.
grep -lsE '^enabled *= *1' /etc/yum.repos.d/*.repo >/dev/null || end 1012 "There are no enabled repos.
 Run ..[tdnf repolist all].. to see the repos you have.
 You can enable repos by
 1. by passing in --enablerepo <reponame>
 2. editing repo files in your repodir(usually /etc/yum.repos.d)"
for file in /etc/yum.repos.d/*.repo; do
	grep -qE '^repo_gpgcheck *= *1' "$file" || continue
	key=$(sed -n 's/^gpgkey *= *//p' "$file" | head -n 1)
	case $key in
	file://*) fingerprint=$(gpg --batch --show-keys --with-colons "${key#file://}" 2>/dev/null | sed -n 's/^pub:[^:]*:[^:]*:[^:]*:\([^:]*\):.*/\1/p' | head -n 1 | tr A-Z a-z) ;;
	*) fingerprint=unknown ;;
	esac
	if ! rpm -q gpg-pubkey --qf '%{VERSION}\n' | grep -q "$(printf %s "$fingerprint" | tail -c 8)"; then
		echo "repo md signature check: No public key" >&2
		echo "Failed to synchronize cache for repo '$(sed -n 's/^name *= *//p' "$file")'" >&2
		end 2004 "GPG error"
	fi
done

[ "$verb" = install ] || exec $dnf $yes $refresh "$verb" $packages

wanted=
for package in $packages; do
	case $package in */*.rpm) # a file, not a name
		wanted="$wanted $package"
		continue
		;;
	esac
	if rpm -q "$package" >/dev/null 2>&1; then
		echo "Package $(rpm -q "$package") is already installed."
		continue
	fi
	name=${package%%-[0-9]*}
	if [ -s "/etc/tdnf/locks.d/$name.conf" ] && rpm -q "$name" >/dev/null 2>&1; then
		end 1301 "Solv general runtime error: $name is locked"
	fi
	wanted="$wanted $package"
done
if [ -z "$wanted" ]; then
	echo "Nothing to do."
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
$dnf $yes $refresh install $wanted >"$log" 2>&1
status=$?
unknown=$(sed -n 's/^No match for argument: //p' "$log")
if [ -n "$unknown" ]; then
	for package in $unknown; do echo "$package package not found or not installed" >&2; done
	end 1011 "No matching packages"
fi
if grep -qE '^(Errors during downloading metadata|Error: Failed to download metadata)' "$log"; then
	for repo in $(sed -n "s/.*for repo(sitory)\{0,1\} '\([^']*\)'.*/\1/p" "$log" | sort -u); do echo "Disabling Repo: '$repo'"; done
	grep -q 'Could not resolve' "$log" && end 1207 "curl#6: Couldn't resolve host name"
fi
[ $status = 0 ] || { cat "$log" >&2; end 1525 "rpm transaction failed"; }
sed -n 's/^  *\(Installing\|Upgrading\)  *: \([^ ]*\).*/Installing\/Updating: \2/p' "$log"
echo "Complete!"

#!/usr/bin/env bash
# image.sh: makes the image of the servers of docs/servers.md from Debian's packages, without a registry, and prints the
# path of its archive. Beside it lies packages.txt: what is in it, a package and its version a line, and the version of Go.
#
# apt resolves the packages as for an empty system, checks their signatures and gets them; they are unpacked, and no script of theirs runs.
# The same packages give the same image. It is made again only where a package, a server's source or this file has changed.
# Needs apt-get, dpkg-deb and Go, and no root.
set -euo pipefail
cd "$(dirname "$0")/.."

servers=(nginx haproxy apache2-bin nodejs gunicorn dnsmasq-base tini busybox-static)
# What only the scripts of packages would run, and the host's own tools.
left_out='^(perl|perl-base|perl-modules-.*|lib.*perl.*|dpkg|tar|debconf|usrmerge|adduser|passwd|iproute2|lsb-base|init-system-helpers|sysvinit-utils)$'
name=drainproof.dev/servers

cache=${DRAINPROOF_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drainproof}/servers
mkdir -p "$cache/debs/partial"
exec 9>"$cache/lock"
flock 9 # one at a time; a second one finds what the first has made

: >"$cache/no-packages"
apt() {
  apt-get -qq -y --no-install-recommends -o Dir::State::status="$cache/no-packages" -o Dir::Cache::archives="$cache/debs" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@" </dev/null
}
# A line each of: 'URI' file size hash
if ! wanted=$(apt --print-uris -o Dir::Cache::archives="$cache/none" install "${servers[@]}"); then
  echo "image.sh: apt cannot resolve ${servers[*]}; run apt-get update" >&2
  exit 4
fi
key=$({ echo "$wanted"; go version; cat servers/image.sh servers/go-*/*.go; } | sha256sum | cut -c1-16)
archive=$cache/$key/servers.tar
if [ -s "$archive" ]; then
  echo "$archive"
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
# A merged /usr, as installed systems have it: packages hold files under both names.
mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,tmp,run,var/tmp,srv/www,usr/local/bin}
chmod 1777 "$root"/tmp "$root"/var/tmp
for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done

apt --download-only install "${servers[@]}" >&2
while IFS=_ read -r package version arch; do # NAME_VERSION_ARCH.deb, a colon in the version as %3a
  [[ $package =~ $left_out ]] && continue
  dpkg-deb --fsys-tarfile "$cache/debs/${package}_${version}_$arch" | tar -x -C "$root" --keep-directory-symlink --no-same-owner \
    --exclude=./usr/share/{doc,man,locale,info,lintian,bug}
  echo "$package ${version//%3a/:}" >>"$work/packages.txt"
done < <(awk '{print $2}' <<<"$wanted")
echo "go $(go env GOVERSION)" >>"$work/packages.txt"
LC_ALL=C sort -o "$work/packages.txt" "$work/packages.txt"
ln -s busybox "$root/usr/bin/sh"
ln -s busybox "$root/usr/bin/touch"
ln -s busybox "$root/usr/bin/sleep"
printf '%s\n' root:x:0:0::/root:/bin/sh www-data:x:33:33::/srv/www:/bin/false nobody:x:65534:65534::/:/bin/false >"$root/etc/passwd"
printf '%s\n' root:x:0: www-data:x:33: nogroup:x:65534: >"$root/etc/group"
# What nginx and httpd serve: a page that takes about 0.3 s at the rate that their configuration allows, and a small one to be ready by.
head -c 45000 /dev/zero | tr '\0' x >"$root/srv/www/page.txt"
echo ok >"$root/srv/www/ok"
for s in go-plain go-shutdown; do
  CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$root/usr/local/bin/$s" "./servers/$s"
done

# A docker archive: one layer, and an image for each stop signal, as `docker build` makes them of STOPSIGNAL.
tar -c -C "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=posix \
  --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime . >"$work/layer.tar"
mkdir "$work/archive"
diff_id=$(sha256sum <"$work/layer.tar" | cut -d' ' -f1)
gzip -n -1 <"$work/layer.tar" >"$work/archive/layer.tar.gz"
entries=()
for signal in TERM QUIT USR1 WINCH; do
  tag=$(tr '[:upper:]' '[:lower:]' <<<"$signal")
  stop=$([ $signal = TERM ] || echo "\"StopSignal\": \"SIG$signal\", ")
  cat >"$work/archive/$tag.json" <<JSON
{"architecture": "$(go env GOARCH)", "os": "linux", "created": "1970-01-01T00:00:00Z",
 "config": {${stop}"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin"], "WorkingDir": "/"},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$diff_id"]}}
JSON
  entries+=("{\"Config\": \"$tag.json\", \"RepoTags\": [\"$name:$tag\"], \"Layers\": [\"layer.tar.gz\"]}")
done
(IFS=,; echo "[${entries[*]}]") >"$work/archive/manifest.json"
mkdir -p "$cache/$key"
cp "$work/packages.txt" "$cache/$key/"
tar -c -C "$work/archive" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner . >"$archive.part"
mv "$archive.part" "$archive"
# Older ones and their packages are of no use any more.
find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name debs ! -name "$key" -exec rm -rf {} +
rm -f "$cache"/debs/*.deb
echo "$archive"

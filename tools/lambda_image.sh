#!/bin/sh
# Makes sure that Docker has the image in which `sam local` runs the functions.
#
# Downloads it. Without a way to the registry, makes a stand-in from this machine: the libraries that the functions link to, the
# certificates, and the few programs with which `sam local` adds its emulator.
#
#     tools/lambda_image.sh x86_64 .aws-sam/build/IngressFunction/bootstrap
set -eu

image=public.ecr.aws/lambda/provided:al2023-$1
if docker image inspect "$image" >/dev/null 2>&1; then
    exit 0
fi
if timeout 300 docker pull --quiet "$image" >/dev/null 2>&1; then
    echo "downloaded $image"
    exit 0
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for directory in bin etc/ssl/certs opt tmp usr/bin var/task var/runtime; do
    mkdir -p "$root/$directory"
done
for program in sh mv chmod; do
    cp -L "$(command -v "$program")" "$root/bin/$program"
done
for program in "$root"/bin/* "$2"; do
    # Each line names a library, most of them as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`.
    ldd "$program" | grep -o '/[^ ]*' >>"$root/libraries"
done
sort -u "$root/libraries" | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
rm "$root/libraries"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
tar -C "$root" -c . | docker import - "$image" >/dev/null
echo "made a stand-in for $image, because it could not be downloaded"

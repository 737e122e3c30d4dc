# does: init, add, commit, clone, status, fsck among the outputs
# version: git --version
git init -q "$1/out/g" && cd "$1/out/g" && cp -r "$1/files" . && git add . && GIT_COMMITTER_DATE="@0 +0000" GIT_AUTHOR_DATE="@0 +0000" git -c user.name=n -c user.email=e commit -qm m && git ls-files && git clone -q . "$1/out/h" && git -C "$1/out/h" status --short && git fsck --no-progress

# does: find, xargs, grep, sed -i, sort, sha256sum
# version: find --version
cd "$1" && find files -type f -name "*.txt" | sort | xargs sha256sum && grep -rc line files | sort && cp files/a.txt out/ && sed -i s/line/LINE/ out/a.txt && cat out/a.txt

# does: glob, file_get_contents, file_put_contents under a lock, copy
# version: php --version
php -r '$d = $argv[1]; print_r(array_map("filesize", glob("$d/files/*.txt")));
file_put_contents("$d/out/w", file_get_contents("$d/files/a.txt"), LOCK_EX); copy("$d/files/a.json", "$d/out/c");
print_r(json_decode(file_get_contents("$d/out/c"), true));' "$1"

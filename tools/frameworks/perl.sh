# does: File::Find, -i (edit in place), flock, rename
# version: perl --version
perl -MFile::Find -MFile::Copy -MFcntl=:flock -e 'my $d = shift; find({no_chdir => 1, wanted => sub { push @all, $_ }}, "$d/files"); print join("\n", sort @all), "\n";
copy("$d/files/a.txt", "$d/out/a.txt"); open(F, ">", "$d/out/l") or die; flock(F, LOCK_EX) or die; print F "x\n"; close F; rename("$d/out/l", "$d/out/m") or die' "$1" && perl -pi -e 's/line/LINE/' "$1/out/a.txt" && cat "$1/out/a.txt" "$1/out/m"

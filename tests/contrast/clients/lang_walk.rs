use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{symlink, FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

fn walk(folder: &Path, found: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let kind = entry.file_type()?;
        found.push(format!("{:?} {} {}", entry.file_name(), kind.is_dir(), kind.is_symlink()));
        if kind.is_dir() {
            walk(&entry.path(), found)?;
        }
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let root = std::path::PathBuf::from(std::env::var("R").unwrap());
    let out = std::path::PathBuf::from(std::env::var("D").unwrap());
    let mut found = Vec::new();
    walk(&root.join("sub"), &mut found)?;
    println!("{found:?}");
    let facts = fs::metadata(root.join("mid.bin"))?;
    println!("{} {} {} {:o}", facts.len(), facts.mtime(), facts.mtime_nsec(), facts.mode());
    println!("{}", fs::symlink_metadata(root.join("to_file"))?.file_type().is_symlink());
    println!("{:?} {:?}", fs::read_link(root.join("to_file"))?, fs::canonicalize(root.join("to_dir/back"))?);
    println!("{}", fs::read(root.join("mid.bin"))?.iter().fold(7u32, |a, b| (a * 31 + *b as u32) % 65521));
    println!("{}", BufReader::new(File::open(root.join("lines"))?).lines().count());
    let mut file = File::open(root.join("small"))?;
    file.seek(SeekFrom::End(-6))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut piece = [0u8; 5];
    file.read_exact_at(&mut piece, 0)?;
    println!("{text:?} {piece:?} {}", file.try_clone()?.stream_position()?);
    for name in ["none", "small/x", "sub", "loop_a"] {
        let got = File::open(root.join(name)).and_then(|mut file| file.read(&mut piece));
        println!("{name} {:?}", got.map_err(|error| error.raw_os_error()));
    }
    println!("{}", fs::copy(root.join("mid.bin"), out.join("copied"))?);
    fs::write(out.join("f"), "text\n")?;
    OpenOptions::new().append(true).open(out.join("f"))?.write_all(b"more\n")?;
    fs::create_dir_all(out.join("a/b"))?;
    fs::rename(out.join("f"), out.join("a/b/g"))?;
    symlink("a/b/g", out.join("link"))?;
    println!("{:?}", fs::read_to_string(out.join("link"))?);
    fs::set_permissions(out.join("copied"), fs::Permissions::from_mode(0o600))?;
    println!("{:?}", OpenOptions::new().write(true).create_new(true).open(out.join("given")).map_err(|e| e.kind()).err());
    OpenOptions::new().write(true).open(out.join("a/b/g"))?.set_len(4)?;
    fs::remove_file(out.join("link"))?;
    println!("{:?}", fs::remove_dir(out.join("a")).map_err(|error| error.raw_os_error()));
    let done = std::process::Command::new("cat").arg(root.join("small")).current_dir(&out).output()?;
    println!("{:?}", String::from_utf8_lossy(&done.stdout));
    let work: Vec<_> = (0..4).map(|i| { let p = root.join(format!("many/f{i:04}")); std::thread::spawn(move || fs::read_to_string(p).unwrap()) }).collect();
    println!("{:?}", work.into_iter().map(|each| each.join().unwrap()).collect::<Vec<_>>());
    Ok(())
}

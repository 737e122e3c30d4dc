import fs from "node:fs";
import path from "node:path";

const root = process.env.R, out = process.env.D;
const attempt = (label, work) => {
  try {
    console.log(label, work());
  } catch (error) {
    console.log(label, error.code);
  }
};
const walk = (folder) =>
  fs.readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((each) => [`${each.name} ${each.isDirectory()} ${each.isSymbolicLink()}`,
      ...(each.isDirectory() ? walk(path.join(folder, each.name)) : [])]);
attempt("walk", () => walk(root + "/sub").join(";"));
attempt("stat", () => { const s = fs.statSync(root + "/mid.bin", { bigint: true }); return [s.size, s.mtimeNs, s.mode].join(); });
attempt("lstat", () => fs.lstatSync(root + "/to_file").isSymbolicLink());
attempt("read", () => fs.readFileSync(root + "/mid.bin").reduce((a, b) => (a * 31 + b) % 65521, 7));
attempt("text", () => fs.readFileSync(root + "/small", "utf8"));
attempt("readlink", () => fs.readlinkSync(root + "/to_file"));
attempt("realpath", () => fs.realpathSync.native(root + "/to_dir/back"));
attempt("missing", () => fs.readFileSync(root + "/none"));
attempt("directory", () => fs.readFileSync(root + "/sub"));
attempt("below a file", () => fs.statSync(root + "/small/x"));
attempt("access", () => fs.accessSync(root + "/small", fs.constants.R_OK));
attempt("position", () => { const b = Buffer.alloc(5); fs.readSync(fs.openSync(root + "/small"), b, 0, 5, 6); return b.toString(); });
attempt("copy", () => { fs.copyFileSync(root + "/mid.bin", out + "/copied"); return fs.statSync(out + "/copied").size; });
attempt("write", () => { fs.writeFileSync(out + "/f", "text\n"); fs.appendFileSync(out + "/f", "more\n"); return fs.readFileSync(out + "/f", "utf8"); });
attempt("mkdir", () => fs.mkdirSync(out + "/a/b/c", { recursive: true }).endsWith("/a"));
attempt("rename", () => { fs.renameSync(out + "/f", out + "/a/b/g"); return fs.readdirSync(out + "/a/b").sort().join(); });
attempt("exclusive", () => fs.openSync(out + "/given", "wx"));
attempt("symlink", () => { fs.symlinkSync("a/b/g", out + "/link"); return fs.readFileSync(out + "/link", "utf8"); });
attempt("truncate", () => { fs.truncateSync(out + "/a/b/g", 4); return fs.readFileSync(out + "/a/b/g", "utf8"); });
attempt("cp", () => { fs.cpSync(root + "/sub", out + "/tree", { recursive: true, dereference: true }); return walk(out + "/tree").join(";"); });
attempt("rm", () => { fs.rmSync(out + "/tree", { recursive: true }); return fs.existsSync(out + "/tree"); });
const pieces = [];
for await (const piece of fs.createReadStream(root + "/lines", { start: 23, end: 5000 })) pieces.push(piece);
console.log("stream", Buffer.concat(pieces).length);
await new Promise((done) => fs.createReadStream(root + "/lines").pipe(fs.createWriteStream(out + "/s")).on("close", done));
console.log("piped", fs.statSync(out + "/s").size);
console.log("promises", (await fs.promises.readFile(root + "/x", "utf8")), (await fs.promises.readdir(root + "/sub")).sort().join());

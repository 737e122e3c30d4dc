# does: readFileSync, promises, streams, writeFile
# version: node --version
node -e "
const fs = require(\"fs\"), dir = process.argv[1];
console.log(fs.readdirSync(dir + \"/files\").sort(), fs.readFileSync(dir + \"/files/a.txt\").length);
fs.promises.readFile(dir + \"/files/a.txt\", \"utf8\").then(t => fs.promises.writeFile(dir + \"/out/n.txt\", t))
  .then(() => fs.createReadStream(dir + \"/out/n.txt\").on(\"data\", d => console.log(d.length)));" "$1"

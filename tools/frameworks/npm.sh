# does: install a package of the mount, npm run
# version: npm --version
mkdir "$1/out/n" && cd "$1/out/n" && cp "$1/files/main.js" "$1/files/x.js" . && echo '{"name": "x", "version": "1.0.0"}' >package.json && export npm_config_logs_max=0; npm pack --silent --cache "$1/out/cache" && npm install --silent --offline --no-audit --no-fund --cache "$1/out/cache" --prefix "$1/out/m" ./x-1.0.0.tgz && ls -R "$1/out/m/node_modules"

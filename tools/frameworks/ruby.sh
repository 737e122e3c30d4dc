# does: Dir.glob, File.read and write, FileUtils.cp_r
# version: ruby --version
ruby -rfileutils -e 'Dir.glob("#{ARGV[0]}/files/**/*").sort.each { |p| puts p, File.file?(p) && File.size(p) }
FileUtils.cp_r("#{ARGV[0]}/files", "#{ARGV[0]}/out/r"); File.write("#{ARGV[0]}/out/w", File.read("#{ARGV[0]}/files/a.txt").upcase)
puts File.readlines("#{ARGV[0]}/out/w").first' "$1"

# does: compile to class files, pack them with jar, run the jar (mapped by the JVM)
# version: javac --version
javac -d "$1/out/c" "$1/files/Walk.java" && jar --create --file "$1/out/w.jar" --main-class Walk --date 2020-01-01T00:00:00Z -C "$1/out/c" . && java -jar "$1/out/w.jar" "$1"

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.nio.file.attribute.*;
import java.util.*;
import java.util.stream.*;

public class Walk {
    interface Work { Object run() throws Exception; }

    static void attempt(String label, Work work) {
        try {
            System.out.println(label + " " + work.run());
        } catch (Exception error) {
            System.out.println(label + " " + error.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) {
        Path root = Paths.get(System.getenv("R")), out = Paths.get(System.getenv("D"));
        attempt("walk", () -> {
            try (Stream<Path> all = Files.walk(root.resolve("sub"))) {
                return all.map(each -> root.relativize(each) + (Files.isDirectory(each) ? "/" : "")).sorted().collect(Collectors.toList());
            }
        });
        attempt("size", () -> Files.size(root.resolve("mid.bin")));
        attempt("attributes", () -> Files.readAttributes(root.resolve("mid.bin"), "unix:mode,size,nlink,lastModifiedTime").toString().length() > 20);
        attempt("time", () -> Files.getLastModifiedTime(root.resolve("small")));
        attempt("link", () -> Files.readSymbolicLink(root.resolve("to_file")));
        attempt("real", () -> root.resolve("to_dir/back").toRealPath());
        attempt("bytes", () -> Arrays.hashCode(Files.readAllBytes(root.resolve("mid.bin"))));
        attempt("lines", () -> Files.readAllLines(root.resolve("lines")).size());
        attempt("missing", () -> Files.readAllBytes(root.resolve("none")));
        attempt("directory", () -> new FileInputStream(root.resolve("sub").toFile()).read());
        attempt("exists", () -> Files.exists(root.resolve("small")) + " " + new File(root + "/none").exists());
        attempt("list", () -> Stream.of(root.resolve("sub").toFile().list()).sorted().collect(Collectors.toList()));
        attempt("map", () -> {
            try (FileChannel channel = FileChannel.open(root.resolve("mid.bin"))) {
                ByteBuffer view = channel.map(FileChannel.MapMode.READ_ONLY, 4096, 65536);
                long sum = 0;
                while (view.hasRemaining()) sum = sum * 31 + view.get();
                return sum;
            }
        });
        attempt("random", () -> {
            try (RandomAccessFile file = new RandomAccessFile(root.resolve("small").toFile(), "r")) {
                file.seek(6);
                return file.readLine() + file.getFilePointer();
            }
        });
        attempt("transfer", () -> {
            try (FileChannel from = FileChannel.open(root.resolve("mid.bin"));
                 FileChannel to = FileChannel.open(out.resolve("moved"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                return from.transferTo(0, from.size(), to);
            }
        });
        attempt("copy", () -> Files.size(Files.copy(root.resolve("mid.bin"), out.resolve("copied"))));
        attempt("write", () -> Files.size(Files.writeString(out.resolve("f"), "text\n")));
        attempt("append", () -> Files.size(Files.writeString(out.resolve("f"), "more\n", StandardOpenOption.APPEND)));
        attempt("directories", () -> out.relativize(Files.createDirectories(out.resolve("a/b"))));
        attempt("move", () -> out.relativize(Files.move(out.resolve("f"), out.resolve("a/b/g"), StandardCopyOption.ATOMIC_MOVE)));
        attempt("exclusive", () -> Files.createFile(out.resolve("given")));
        attempt("symlink", () -> Files.readString(Files.createSymbolicLink(out.resolve("link"), Paths.get("a/b/g"))));
        attempt("permissions", () -> PosixFilePermissions.toString(Files.getPosixFilePermissions(Files.setPosixFilePermissions(out.resolve("copied"), PosixFilePermissions.fromString("rw-------")))));
        attempt("shared map", () -> {
            try (FileChannel channel = FileChannel.open(out.resolve("m"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                channel.map(FileChannel.MapMode.READ_WRITE, 0, 100).put("mapped".getBytes());
                return channel.size();
            }
        });
        attempt("not empty", () -> { Files.delete(out.resolve("a")); return "deleted"; });
        attempt("delete", () -> Files.deleteIfExists(out.resolve("link")) + " " + Files.deleteIfExists(out.resolve("none")));
    }
}

/* What a program does with outputs of its own: own PROGRAM DIRECTORY, PROGRAM being a static one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char *what, long rc)
{
    printf("%s: %s\n", what, rc < 0 ? strerror(errno) : "ok");
}

/* A lock ends with the descriptor's close, at once. */
static void lock_again_and_again(void)
{
    int busy = 0;
    for (int turn = 0; turn < 200; turn++) {
        int fd = open("lock", O_RDWR | O_CREAT, 0600);
        busy += flock(fd, LOCK_EX | LOCK_NB) != 0;
        close(fd);
    }
    printf("%d of 200 locks were busy\n", busy);
}

static void copy_program(const char *from, const char *to)
{
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    for (long got; (got = read(in, bytes, sizeof(bytes))) > 0;)
        show("write", write(out, bytes, (size_t)got) == got ? 0 : -1);
    close(in);
    close(out);
}

/* A program that was written a moment ago runs. */
static void run_what_was_written(const char *program)
{
    int failed = 0, status;
    for (int turn = 0; turn < 20; turn++) {
        copy_program(program, "program");
        if (fork() == 0) {
            execl("program", "program", NULL);
            _exit(99);
        }
        failed += wait(&status) < 0 || status != 0;
    }
    printf("%d of 20 programs did not run\n", failed);
}

static void use_without_a_name(const char *what, int fd)
{
    struct stat st = {0};
    printf("%s\n", what);
    show("fstat", fstat(fd, &st));
    printf("%d names\n", (int)st.st_nlink);
    show("utimensat", utimensat(fd, "", NULL, AT_EMPTY_PATH));
    show("write", write(fd, "bytes", 5));
    show("fstat", fstat(fd, &st));
    printf("%d bytes\n", (int)st.st_size);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return 0;
    show("chdir", chdir(argv[2]));
    lock_again_and_again();
    run_what_was_written(argv[1]);
    int fd = open("removed", O_RDWR | O_CREAT, 0600);
    unlink("removed");
    use_without_a_name("removed", fd);
    use_without_a_name("O_TMPFILE", open(".", O_TMPFILE | O_RDWR, 0600));
    umask(0777);
    show("mkdir", mkdir("closed", 0777));
    umask(0);
    show("open", open("later", O_WRONLY | O_CREAT, 0666));
    return 0;
}

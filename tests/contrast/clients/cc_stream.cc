// C++ streams and std::filesystem on the tree.
#include "client.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <pthread.h>
#include <semaphore.h>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

namespace fs = std::filesystem;

CASE(ifstream_reads_lines)
{
    std::ifstream file(in_tree("text/lines.txt"));
    std::string line;
    int count = 0;
    while (std::getline(file, line)) {
        count++;
    }
    SHOW("%d eof %d", count, file.eof());
}

CASE(ifstream_binary_and_seek)
{
    std::ifstream file(in_tree("bin/big.bin"), std::ios::binary | std::ios::ate);
    std::streamoff size = file.tellg();
    file.seekg(0);
    std::string data(size, '\0');
    file.read(&data[0], size);
    SHOW("%lld %lx", (long long) size, sum(data.data(), data.size()));
    file.seekg(-7, std::ios::end);
    SHOW("%d", file.get());
    file.seekg(1 << 20);
    file.unget();
    SHOW("%d %lld", file.peek(), (long long) file.tellg());
}

CASE(ifstream_large_reads_use_readv)
{
    std::ifstream file(in_tree("bin/big.bin"), std::ios::binary);
    std::string data(100001, '\0');
    unsigned long total = 0;
    while (file.read(&data[0], data.size()) || file.gcount() > 0) {
        total = total * 31 + sum(data.data(), file.gcount());
    }
    SHOW("%lx", total);
}

CASE(ifstream_iterator_and_rdbuf)
{
    std::ifstream file(in_tree("bin/mid.bin"), std::ios::binary);
    std::string data((std::istreambuf_iterator<char>(file)), {});
    std::ostringstream copy;
    std::ifstream again(in_tree("bin/mid.bin"), std::ios::binary);
    copy << again.rdbuf();
    SHOW("%zu %d", data.size(), data == copy.str());
}

CASE(ifstream_missing)
{
    std::ifstream file(in_tree("none"));
    SHOW("open %d fail %d", file.is_open(), file.fail());
}

CASE(formatted_extraction)
{
    std::ifstream file(in_tree("text/numbers.txt"));
    int number;
    double ratio, total = 0;
    std::string key;
    while (file >> number >> ratio >> key) {
        total += number * ratio;
    }
    SHOW("%f", total);
}

CASE(filesystem_queries)
{
    fs::path root(getenv("T"));
    SHOW("%d %d %d", fs::exists(root / "text"), fs::is_directory(root / "links/to_dir"), fs::is_symlink(root / "links/up"));
    SHOW("%ju %ju", fs::file_size(root / "bin/big.bin"), fs::hard_link_count(root / "hard/one"));
    SHOW("%s", fs::canonical(root / "links/deep").c_str());
    SHOW("%s", fs::weakly_canonical(root / "none/x").c_str());
    SHOW("%s", fs::read_symlink(root / "links/to_file").c_str());
    SHOW("%d %d", fs::equivalent(root / "hard/one", root / "hard/two"), fs::is_empty(root / "empty_dir"));
    SHOW("%o", (unsigned) fs::status(root / "modes/m0755").permissions());
    std::error_code error;
    fs::file_size(root / "none", error);
    SHOW("%d", error.value());
    fs::file_size(root / "text", error);
    SHOW("%d", error.value());
}

CASE(filesystem_iterators)
{
    fs::path root(getenv("T"));
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(root / "text")) {
        names.insert(entry.path().string() + (entry.is_directory() ? "/" : ""));
    }
    for (const auto &entry : fs::recursive_directory_iterator(root / "deep")) {
        names.insert(entry.path().string());
    }
    for (const auto &name : names) {
        SHOW("%s", name.c_str());
    }
}

CASE(filesystem_copies_out)
{
    fs::path root(getenv("T")), out(getenv("W"));
    fs::copy_file(root / "bin/mid.bin", out / "mid.bin");
    fs::copy(root / "text", out / "text", fs::copy_options::recursive);
    fs::copy(root / "links/to_file", out / "link", fs::copy_options::copy_symlinks);
    SHOW("%ju", fs::file_size(out / "mid.bin"));
}

CASE(filesystem_current_path)
{
    fs::current_path(fs::path(getenv("T")) / "text");
    SHOW("%s %s", fs::current_path().c_str(), fs::absolute("x").c_str());
    SHOW("%s", fs::relative(fs::path(getenv("T")) / "hard/one").c_str());
}

CASE(ofstream_to_scratch)
{
    std::ofstream out(join("W", "out"), std::ios::binary);
    std::ifstream in(in_tree("bin/big.bin"), std::ios::binary);
    out << in.rdbuf();
    SHOW("%d", out.good());
}

static sem_t reading;
static volatile int destroyed;

struct Watched {
    ~Watched() { destroyed++; }
};

static void *read_for_ever(void *)
{
    Watched outer;
    sem_post(&reading);
    for (;;) {
        Watched inner;
        std::ifstream file(in_tree("text/lines.txt"));
        std::string line;
        while (std::getline(file, line)) {
        }
    }
    return nullptr;
}

CASE(cancelled_thread_is_unwound)
{
    pthread_t thread;
    void *result = nullptr;
    sem_init(&reading, 0, 0);
    OK(pthread_create(&thread, nullptr, read_for_ever, nullptr) == 0);
    sem_wait(&reading);
    destroyed = 0;
    OK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    SHOW("cancelled %d unwound %d", result == PTHREAD_CANCELED, destroyed >= 1);
    std::ifstream file(in_tree("text/hello.txt"));
    SHOW("reads on %d", file.get());
}

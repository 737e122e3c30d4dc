// C++ streams and std::filesystem on outputs. D is the case's directory.
#include "client.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace fs = std::filesystem;

static std::string in_d(const char *name)
{
    return std::string(getenv("D")) + "/" + name;
}

static std::string content(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return file ? all.str() : "cannot be opened";
}

CASE(ofstream_modes)
{
    {
        std::ofstream file(in_d("f"));
        file << "first " << 7 << std::endl;
    }
    SHOW("%s", content(in_d("f")).c_str());
    std::ofstream(in_d("f"), std::ios::app) << "appended";
    SHOW("%s", content(in_d("f")).c_str());
    std::fstream both(in_d("f"), std::ios::in | std::ios::out);
    both.seekp(2);
    both << "XX";
    both.close();
    SHOW("%s", content(in_d("f")).c_str());
    std::ofstream(in_d("f"), std::ios::trunc) << "cut";
    SHOW("%s", content(in_d("f")).c_str());
    std::fstream missing(in_d("none"), std::ios::in | std::ios::out);
    SHOW("missing %d", missing.is_open());
    std::fstream made(in_d("made"), std::ios::in | std::ios::out | std::ios::trunc);
    made << "made";
    made.seekg(0);
    std::string word;
    made >> word;
    SHOW("made %s", word.c_str());
    std::ofstream nowhere(in_d("none/x"));
    SHOW("nowhere %d", nowhere.is_open());
}

CASE(large_stream)
{
    std::string block(1 << 20, 'x');
    std::ofstream file(in_d("f"), std::ios::binary);
    for (int i = 0; i < 5; i++) {
        file.write(block.data(), block.size());
    }
    file.close();
    SHOW("size %ju", (uintmax_t) fs::file_size(in_d("f")));
}

static std::ofstream global;

CASE(static_stream)
{
    global.open(in_d("f"));
    global << "closed by a destructor";
}

CASE(filesystem_changes)
{
    std::error_code error;
    SHOW("made %d", fs::create_directories(in_d("a/b/c")));
    SHOW("again %d", fs::create_directories(in_d("a/b/c")));
    std::ofstream(in_d("a/f")) << "f";
    fs::copy_file(in_d("a/f"), in_d("a/b/g"));
    fs::copy(in_d("a"), in_d("copy"), fs::copy_options::recursive);
    fs::rename(in_d("a/f"), in_d("a/h"));
    fs::create_symlink("h", in_d("a/link"));
    SHOW("link %s", fs::read_symlink(in_d("a/link")).c_str());
    fs::resize_file(in_d("a/h"), 100);
    SHOW("size %ju", (uintmax_t) fs::file_size(in_d("a/link")));
    fs::permissions(in_d("a/h"), fs::perms::owner_read);
    SHOW("removed %d", fs::remove(in_d("a/b/g")));
    SHOW("missing %d", fs::remove(in_d("none")));
    fs::rename(in_d("none"), in_d("x"), error);
    SHOW("error %s", error.message().c_str());
    fs::create_directory(in_d("a/h"), error);
    SHOW("error %s", error.message().c_str());
    SHOW("all %ju", (uintmax_t) fs::remove_all(in_d("copy")));
    SHOW("room %d", fs::space(in_d("a")).available > 0);
    fs::current_path(in_d("a"));
    std::ofstream("relative") << "relative";
    SHOW("%s", content(in_d("a/relative")).c_str());
}

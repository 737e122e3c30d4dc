/*
 * Watches the imports of a CPython interpreter through its audit hooks (PEP 578). When torch's
 * DataLoader, tf.data or grain is loaded, runs in_job/start.py of the job directory, which makes
 * that loader announce to the daemon in which order it will read. Looks up CPython's functions by
 * name, so that this library needs nothing of Python to be built or loaded. If something fails, the
 * report says so, and the program goes on.
 *
 * The program may have audit hooks of its own, which may end it if an event comes that they do not
 * expect. So the code in in_job/ calls functions of this file in place of those of Python that
 * raise events: open, compile, exec, socket, fcntl and gc.get_referents.
 */
#include "load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "../../client/job/job.h"
#include "../../client/job/jobsocket.h"
#include "../../client/job/lane.h"
#include "../../client/job/fresh.h"
#include "../../client/machine/limits.h"
#include "../../common/sys.h"
#include "python_debug.h"

enum { FILE_INPUT = 257, TEXT_BYTES_MAX = 64 << 10 }; /* the value of Py_file_input */

static struct {
    int (*PyDict_SetItemString)(void *dict, const char *key, void *value);
    void *(*PyDict_GetItemString)(void *dict, const char *key);
    void (*PyErr_Clear)(void);
    void (*PyErr_Fetch)(void **kind, void **value, void **traceback);
    void (*PyErr_Restore)(void *kind, void *value, void *traceback);
    int (*PyErr_ExceptionMatches)(void *kind);
    void *(*PyErr_Occurred)(void);
    void **PyExc_Exception;
    void *(*PyEval_EvalCode)(void *code, void *globals, void *locals);
    void *(*PyEval_GetBuiltins)(void);
    int (*PyBytes_AsStringAndSize)(void *object, char **bytes, ssize_t *count);
    void *(*PyModule_New)(const char *name);
    void *(*PyModule_GetDict)(void *module);
    void *(*PyList_New)(ssize_t count);
    int (*PyList_Append)(void *list, void *object);
    void *(*PyObject_Type)(void *object);
    unsigned long (*PyType_GetFlags)(void *type);
    void *(*PyType_GetSlot)(void *type, int slot);
    int (*PyArg_ParseTuple)(void *arguments, const char *format, ...);
    void *(*PyCFunction_NewEx)(void *method, void *self, void *module);
    void *(*PyImport_GetModule)(void *name);
    void *(*PyInstanceMethod_New)(void *callable);
    void *(*PyObject_Call)(void *callable, void *arguments, void *keywords);
    int (*PyObject_HasAttrString)(void *object, const char *name);
    int (*PyObject_IsTrue)(void *object);
    void *(*PySequence_Concat)(void *one, void *other);
    void *(*PyTuple_GetItem)(void *tuple, ssize_t at);
    const char *(*PyUnicode_AsUTF8)(void *text);
    void *(*PyUnicode_FromString)(const char *text);
    void *(*PyUnicode_DecodeFSDefault)(const char *text);
    void *(*Py_BuildValue)(const char *format, ...);
    void *(*Py_CompileString)(const char *text, const char *file, int start);
    void (*Py_DecRef)(void *object);
} python;

static const struct {
    const char *name;
    void **function;
} functions[] = {
#define LOOK_UP(name) {#name, (void **)&python.name}
    LOOK_UP(PyDict_SetItemString),
    LOOK_UP(PyDict_GetItemString),
    LOOK_UP(PyErr_Clear),
    LOOK_UP(PyErr_Fetch),
    LOOK_UP(PyErr_Restore),
    LOOK_UP(PyErr_ExceptionMatches),
    LOOK_UP(PyErr_Occurred),
    LOOK_UP(PyExc_Exception),
    LOOK_UP(PyEval_EvalCode),
    LOOK_UP(PyEval_GetBuiltins),
    LOOK_UP(PyBytes_AsStringAndSize),
    LOOK_UP(PyModule_New),
    LOOK_UP(PyModule_GetDict),
    LOOK_UP(PyList_New),
    LOOK_UP(PyList_Append),
    LOOK_UP(PyObject_Type),
    LOOK_UP(PyType_GetFlags),
    LOOK_UP(PyType_GetSlot),
    LOOK_UP(PyArg_ParseTuple),
    LOOK_UP(PyCFunction_NewEx),
    LOOK_UP(PyImport_GetModule),
    LOOK_UP(PyInstanceMethod_New),
    LOOK_UP(PyObject_Call),
    LOOK_UP(PyObject_HasAttrString),
    LOOK_UP(PyObject_IsTrue),
    LOOK_UP(PySequence_Concat),
    LOOK_UP(PyTuple_GetItem),
    LOOK_UP(PyUnicode_AsUTF8),
    LOOK_UP(PyUnicode_FromString),
    LOOK_UP(PyUnicode_DecodeFSDefault),
    LOOK_UP(Py_BuildValue),
    LOOK_UP(Py_CompileString),
    LOOK_UP(Py_DecRef),
#undef LOOK_UP
};

/* Modules of loaders, the last name that each one defines, and the file that watches the loader
 * once that name exists. */
static struct {
    const char *module, *last, *file;
    enum { WAITING, LOADING, DONE } state;
} loaders[] = {
    {"torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter", "torch_start.py", WAITING},
    {"tensorflow.python.data.ops.iterator_ops", "get_next_as_optional", "tensorflow_start.py",
     WAITING},
    {"grain._src.python.dataset.transformations.prefetch", "PrefetchDatasetIterator",
     "grain_start.py", WAITING},
};

enum { LOADERS = sizeof(loaders) / sizeof(loaders[0]) };

static bool code_path(char path[PATH_MAX], const char *file)
{
    int length = snprintf(path, PATH_MAX, "%s/in_job/%s", fan_job.directory.text, file);
    return length < PATH_MAX;
}

/* Returns the text of a file, which the caller frees; NULL if it cannot be read. */
static char *read_text(const char *path)
{
    char *text = malloc(TEXT_BYTES_MAX + 1);
    long got = text != NULL ? fan_sys_read_text(path, text, TEXT_BYTES_MAX + 1) : 0;
    if (got > 0 && got < TEXT_BYTES_MAX)
        return text;
    free(text);
    return NULL;
}

/* The Python function note_sample(number, dataset, joins): files that this thread opens from now on
 * belong to that sample; joins: also to those noted just before, of the same batch. */
static void *note_sample(void *self, void *arguments)
{
    (void)self;
    unsigned number = 0, dataset = 0;
    int joins = 0;
    if (python.PyArg_ParseTuple(arguments, "IIp", &number, &dataset, &joins) == 0)
        return NULL;
    uint64_t payload = dataset & FAN_NOTE_PAYLOAD_MAX;
    /* Which sample of a batch another thread reads is unknown. */
    fan_trace_sample(fan_note(FAN_NOTE_SAMPLE, (unsigned)joins, number, payload),
                     fan_note(FAN_NOTE_SAMPLE, 0, joins ? FAN_NOTE_NO_FILE : number, payload));
    return python.Py_BuildValue("");
}

/* The Python function last_opened(): the inode number of the file that this thread opened last in a
 * mount; 0: none. */
static void *last_opened(void *self, void *arguments)
{
    (void)self;
    (void)arguments;
    return python.Py_BuildValue("K", (unsigned long long)fan_thread_lane.opened);
}

enum { FDS_MAX = 8 };

/* Sends `bytes` of text and file descriptors to the node daemon, and never waits. Returns 0 or
 * -errno. */
static long send_to_daemon(char *text, size_t bytes, const char *fds, size_t fd_bytes)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec part = {text, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_bytes > FDS_MAX * sizeof(int))
        return -E2BIG;
    if (fd_bytes > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_bytes);
        memcpy(CMSG_DATA(&control.header), fds, fd_bytes);
    }
    int link = (int)FAN_SYS(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link < 0)
        return link;
    long rc = fan_job_connect(link, "order", 0);
    if (rc == 0)
        rc = FAN_SYS(sendmsg, link, &message, MSG_NOSIGNAL);
    fan_sys_close(link);
    return rc < 0 ? rc : 0;
}

/* The Python function send(text, fds), both of them bytes, the latter of an array of int. Returns
 * an error number, or 0. */
static void *send_message(void *self, void *arguments)
{
    (void)self;
    char *text = NULL, *fds = NULL;
    ssize_t bytes = 0, fd_bytes = 0;
    void *first = python.PyTuple_GetItem(arguments, 0);
    void *second = first != NULL ? python.PyTuple_GetItem(arguments, 1) : NULL;
    if (second == NULL || python.PyBytes_AsStringAndSize(first, &text, &bytes) != 0 ||
        python.PyBytes_AsStringAndSize(second, &fds, &fd_bytes) != 0)
        return NULL;
    long rc = send_to_daemon(text, (size_t)bytes, fds, (size_t)fd_bytes);
    return python.Py_BuildValue("i", (int)-rc);
}

/* The Python function seal(fd): seals a memory file. Returns an error number, or 0. */
static void *seal(void *self, void *arguments)
{
    (void)self;
    int fd = -1;
    if (python.PyArg_ParseTuple(arguments, "i", &fd) == 0)
        return NULL;
    int rc = fan_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return python.Py_BuildValue("i", -rc);
}

/* Numbers of CPython's stable ABI. */
enum { TP_TRAVERSE = 71 };
static const unsigned long HAVE_GC = 1UL << 14, TYPE_SUBCLASS = 1UL << 31;

static int add_to_list(void *object, void *list)
{
    return python.PyList_Append(list, object);
}

/* The Python function referents(object): the same as gc.get_referents. Python before 3.10 does not
 * tell what is needed for it; then the list is empty. */
static void *referents(void *self, void *arguments)
{
    (void)self;
    void *object = python.PyTuple_GetItem(arguments, 0);
    void *found = object != NULL ? python.PyList_New(0) : NULL;
    if (found == NULL)
        return NULL;
    void *type = python.PyObject_Type(object);
    unsigned long flags = python.PyType_GetFlags(type);
    if ((flags & HAVE_GC) != 0 && (flags & TYPE_SUBCLASS) == 0) {
        typedef int traverse(void *object, int (*visit)(void *, void *), void *list);
        traverse *visit_all = (traverse *)python.PyType_GetSlot(type, TP_TRAVERSE);
        if (visit_all != NULL)
            visit_all(object, add_to_list, found);
        python.PyErr_Clear();
    }
    python.Py_DecRef(type);
    return found;
}

/* Calls after(result, *arguments), with None for no result. Returns whether that failed. */
static bool call_after(void *after, void *result, void *arguments, void *keywords)
{
    void *first = result != NULL ? python.Py_BuildValue("(O)", result)
                                 : python.Py_BuildValue("(s)", (char *)NULL);
    void *all = first != NULL ? python.PySequence_Concat(first, arguments) : NULL;
    void *answer = all != NULL ? python.PyObject_Call(after, all, keywords) : NULL;
    python.Py_DecRef(first);
    python.Py_DecRef(all);
    python.Py_DecRef(answer);
    return answer == NULL;
}

/* The function that `wrapped` made of the functions in the tuple `parts`. */
static void *call_wrapped(void *parts, void *arguments, void *keywords)
{
    void *function = python.PyTuple_GetItem(parts, 0), *before = python.PyTuple_GetItem(parts, 1);
    bool always = python.PyObject_IsTrue(python.PyTuple_GetItem(parts, 3)) > 0;
    void *error[3] = {NULL}, *instead = NULL;
    if (fan_restricted()) /* a seccomp filter may end the process for the calls of `before` */
        return python.PyObject_Call(function, arguments, keywords);
    if (python.PyObject_IsTrue(before) != 0) {
        instead = python.PyObject_Call(before, arguments, keywords);
        if (instead == NULL)
            return NULL;
    }
    bool is_changed = instead != NULL && python.PyObject_IsTrue(instead) != 0;
    void *result = is_changed ? python.PyObject_Call(function, instead, NULL)
                              : python.PyObject_Call(function, arguments, keywords);
    python.Py_DecRef(instead);
    if ((result == NULL && !always) || fan_restricted())
        return result;
    if (result == NULL)
        python.PyErr_Fetch(&error[0], &error[1], &error[2]);
    if (call_after(python.PyTuple_GetItem(parts, 2), result, arguments, keywords)) {
        for (int i = 0; i < 3; i++)
            python.Py_DecRef(error[i]);
        python.Py_DecRef(result);
        return NULL; /* with the exception of a signal handler of the job */
    }
    if (result == NULL)
        python.PyErr_Restore(error[0], error[1], error[2]);
    return result;
}

/* A struct PyMethodDef, as in CPython's stable ABI. */
struct method {
    const char *name;
    void *function;
    int flags;
    const char *about;
};

enum { METH_VARARGS = 1, METH_KEYWORDS = 2 };

/* With text for inspect.signature. */
static struct method call_method = {"wrapped", (void *)call_wrapped, METH_VARARGS | METH_KEYWORDS,
                                    "wrapped($self, /, *args, **kwargs)\n--\n\n"};

/* The Python function wrapped(method, before, after, always): a method that calls
 * before(*arguments), unless `before` is None; then method(*arguments), or method(*before's result)
 * if that is a tuple; and in the end after(result, *arguments). If the method raises an exception,
 * `after` is called only if `always` is true, with None for the result. The method has no frame, so
 * it is in no traceback of the job's exceptions. */
static void *wrapped(void *self, void *arguments)
{
    (void)self;
    void *function = python.PyCFunction_NewEx(&call_method, arguments, NULL);
    void *method = function != NULL ? python.PyInstanceMethod_New(function) : NULL;
    python.Py_DecRef(function);
    return method;
}

static void *load_part(void *self, void *arguments);

/* What the code in in_job/ finds among its globals. */
static struct method methods[] = {
    {"note_sample", (void *)note_sample, METH_VARARGS, NULL},
    {"last_opened", (void *)last_opened, METH_VARARGS, NULL},
    {"wrapped", (void *)wrapped, METH_VARARGS, NULL},
    {"send", (void *)send_message, METH_VARARGS, NULL},
    {"seal", (void *)seal, METH_VARARGS, NULL},
    {"referents", (void *)referents, METH_VARARGS, NULL},
    {"load_part", (void *)load_part, METH_VARARGS, NULL},
};

static void put(void *dict, const char *key, void *value)
{
    if (value != NULL)
        python.PyDict_SetItemString(dict, key, value);
    python.Py_DecRef(value);
}

/* Returns whether an exception is the job's own: a signal handler of the job may run at any line
 * (Ctrl-C), and once the started code has set `begun`, every exception is the job's. */
static bool is_the_jobs(void *globals)
{
    return globals != NULL && (python.PyErr_ExceptionMatches(*python.PyExc_Exception) == 0 ||
                               python.PyDict_GetItemString(globals, "begun") != NULL);
}

/* Makes a module that is not in sys.modules, and runs code in it, which finds `asked` there.
 * Returns NULL, with an exception, if that failed. The caller drops the module in any case. */
static void *run(const char *text, const char *path, const char *asked, void **module)
{
    *module = python.PyModule_New("_fanstore_peek");
    void *globals = *module != NULL ? python.PyModule_GetDict(*module) : NULL;
    char name[PATH_MAX]; /* no file that coverage, for example, would look for after the job */
    snprintf(name, sizeof(name), "<fanstore %s>", strrchr(path, '/') + 1);
    void *code = globals != NULL ? python.Py_CompileString(text, name, FILE_INPUT) : NULL;
    if (code == NULL)
        return NULL;
    python.PyDict_SetItemString(globals, "__builtins__", python.PyEval_GetBuiltins());
    put(globals, "__file__", python.PyUnicode_DecodeFSDefault(path));
    put(globals, "asked", python.PyUnicode_FromString(asked));
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        put(globals, methods[i].name, python.PyCFunction_NewEx(&methods[i], NULL, NULL));
    void *result = python.PyEval_EvalCode(code, globals, globals);
    python.Py_DecRef(code);
    return result;
}

/* The Python function load_part(file): runs a file of in_job/ and returns it as a module. */
static void *load_part(void *self, void *arguments)
{
    (void)self;
    char path[PATH_MAX];
    void *name = python.PyTuple_GetItem(arguments, 0), *module = NULL;
    const char *file = name != NULL ? python.PyUnicode_AsUTF8(name) : NULL;
    char *text = file != NULL && code_path(path, file) ? read_text(path) : NULL;
    void *result = text != NULL ? run(text, path, "", &module) : NULL;
    free(text);
    python.Py_DecRef(result);
    if (result != NULL)
        return module;
    python.Py_DecRef(module);
    return python.PyErr_Occurred() != NULL ? NULL : python.Py_BuildValue("");
}

/* Runs start.py; `file` watches the loader. */
static void start(const char *file)
{
    char path[PATH_MAX];
    void *module = NULL;
    char *text = code_path(path, "start.py") ? read_text(path) : NULL;
    if (text == NULL) {
        fan_job_note("order-notes", "the code that looks at loaders could not be read");
        return;
    }
    void *result = run(text, path, file, &module);
    if (result == NULL) {
        if (!is_the_jobs(module != NULL ? python.PyModule_GetDict(module) : NULL))
            python.PyErr_Clear();
        fan_job_note("order-notes", "the code that looks at loaders failed in this Python");
    }
    python.Py_DecRef(result);
    python.Py_DecRef(module);
    free(text);
}

/* Returns whether a module is completely loaded. */
static bool loaded(const char *module_name, const char *last)
{
    void *name = python.PyUnicode_FromString(module_name);
    void *module = name != NULL ? python.PyImport_GetModule(name) : NULL;
    bool there = module != NULL && python.PyObject_HasAttrString(module, last) == 1;
    python.PyErr_Clear();
    python.Py_DecRef(module);
    python.Py_DecRef(name);
    return there;
}

/* The interpreter calls it for each event, with its lock held; nearly all events are of other
 * kinds. The event of an import comes before the import, so a loader's module is found complete
 * only at a later import. */
static int hear(const char *event, void *arguments, void *unused)
{
    (void)unused;
    if (event[0] != 'i' || strcmp(event, "import") != 0)
        return 0;
    void *name = python.PyTuple_GetItem(arguments, 0);
    const char *text = name != NULL ? python.PyUnicode_AsUTF8(name) : NULL;
    if (text == NULL)
        python.PyErr_Clear();
    for (int i = 0; i < LOADERS; i++) {
        if (loaders[i].state == LOADING && loaded(loaders[i].module, loaders[i].last)) {
            loaders[i].state = DONE;
            if (!fan_restricted())
                start(loaders[i].file);
            if (python.PyErr_Occurred() != NULL)
                return -1; /* the job's exception is raised from the import */
        } else if (loaders[i].state == WAITING && text != NULL &&
                   strcmp(text, loaders[i].module) == 0) {
            loaders[i].state = LOADING;
        }
    }
    return 0;
}

void fan_python_begin(char *const argv[])
{
    typedef int hook(const char *, void *, void *);
    int (*add)(hook *, void *) = (int (*)(hook *, void *))dlsym(RTLD_DEFAULT, "PySys_AddAuditHook");
    char path[PATH_MAX];
    if (add == NULL || !code_path(path, loaders[0].file) ||
        FAN_SYS(faccessat, AT_FDCWD, path, 0) != 0)
        return;
    if (fan_python_debugs(argv)) {
        fan_job_note("order-notes", "Python uses debug allocators (-X dev, PYTHONMALLOC)");
        return;
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].function = dlsym(RTLD_DEFAULT, functions[i].name);
        if (*functions[i].function == NULL) {
            fan_job_note("order-notes", "this Python lacks functions to look at loaders with");
            return;
        }
    }
    add(hear, NULL);
}

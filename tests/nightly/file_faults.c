/* Counts the changes that a process makes to files below one folder, and acts at one of them.

   cc -shared -fPIC -O1 -o file_faults.so file_faults.c; loaded with LD_PRELOAD and armed with
   file_faults_arm. Changes: opening for writing, writing, syncing, renaming, linking, deleting,
   making folders, truncating. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, RECORD, KILL, HALF, FAIL }; /* HALF: kill when half of a write is done */

static int action, error, lasting, journal = -1;
static long at, count;
static char folder[PATH_MAX];
static pthread_mutex_t order = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define NEXT(name) \
  static __typeof__(&name) next; \
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Begins: `number` is the errno of a failure that lasts if `lasts`; `file` gets the records. */
void file_faults_arm(const char *below, int what, long when, int number, int lasts, int file) {
  snprintf(folder, sizeof folder, "%s", below);
  at = when, error = number, lasting = lasts, journal = file, count = 0, action = what;
}

static int inside(const char *path) {
  size_t length = strlen(folder);
  return action && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int by_descriptor(int descriptor, char *path) {
  char link[64];
  if (!action || descriptor < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = 0;
  return inside(path);
}

static int by_name(int directory, const char *name, char *path) {
  char start[PATH_MAX] = "";
  if (!action || !name) return 0;
  if (*name == '/') {
    snprintf(path, PATH_MAX, "%s", name);
  } else {
    if (directory == AT_FDCWD) { if (!getcwd(start, sizeof start)) return 0; }
    else by_descriptor(directory, start);
    snprintf(path, PATH_MAX, "%.2000s/%.2000s", start, name);
  }
  return inside(path);
}

static void put(const void *data, size_t length) {
  NEXT(write);
  for (const char *p = data; length;) {
    ssize_t done = next(journal, p, length);
    if (done <= 0) abort();
    p += done, length -= done;
  }
}

/* Records a change: of names, or the new size of a file, or its content when it is synced. */
static void record(const char *kind, const char *path, const char *other, long size, int synced) {
  char *content = NULL;
  long length = 0;
  if (action != RECORD) return;
  if (synced) {
    NEXT(open);
    struct stat about;
    int file = next(path, O_RDONLY);
    if (file >= 0 && !fstat(file, &about) && S_ISREG(about.st_mode)) {
      content = malloc(about.st_size + 1);
      length = pread(file, content, about.st_size, 0);
    }
    if (file >= 0) close(file);
  }
  int64_t header[6] = {count, size, strlen(kind), strlen(path), strlen(other), length};
  put(header, sizeof header);
  put(kind, header[2]), put(path, header[3]), put(other, header[4]), put(content, length);
  free(content);
}

static long size_of(int descriptor) {
  struct stat about;
  return fstat(descriptor, &about) ? 0 : about.st_size;
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Whether this change fails. A full disk still deletes and truncates. */
static int fails(const char *kind) {
  count++;
  if (action == KILL && count == at) die();
  int room = strcmp(kind, "unlink") && strcmp(kind, "rmdir") && strcmp(kind, "truncate");
  if (action != FAIL || (lasting ? count < at : count != at)) return 0;
  if (lasting && error == ENOSPC && !room) return 0;
  errno = error;
  return 1;
}

/* One change: takes the order, fails or does it, records what was done. */
#define CHANGE(kind, is_inside, failed, call, path, other, size, synced) \
  if (!(is_inside)) return call; \
  pthread_mutex_lock(&order); \
  __typeof__(call) result = failed; \
  if (!fails(kind)) { \
    result = call; \
    if (result != failed) record(kind, path, other, size, synced); \
  } \
  pthread_mutex_unlock(&order); \
  return result

static int opened(int (*next)(int, const char *, int, ...), int directory, const char *name,
                  int flags, mode_t mode) {
  char path[PATH_MAX];
  struct stat about;
  int writes = (flags & (O_CREAT | O_TRUNC)) || (flags & O_ACCMODE) != O_RDONLY;
  if (!writes || !by_name(directory, name, path)) return next(directory, name, flags, mode);
  int new = (flags & O_CREAT) && lstat(path, &about);
  CHANGE(new ? "create" : flags & O_TRUNC ? "empty" : "open", 1, -1,
         next(directory, name, flags, mode), path, "", 0, 0);
}

#define MODE \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list more; \
    va_start(more, flags); \
    mode = va_arg(more, int); \
    va_end(more); \
  } \
  NEXT(openat)
int open(const char *name, int flags, ...) { MODE; return opened(next, AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE; return opened(next, AT_FDCWD, name, flags, mode); }
int openat(int d, const char *name, int flags, ...) { MODE; return opened(next, d, name, flags, mode); }
int openat64(int d, const char *name, int flags, ...) { MODE; return opened(next, d, name, flags, mode); }
int __open_2(const char *name, int flags) { return open(name, flags, 0); }
int __open64_2(const char *name, int flags) { return open(name, flags, 0); }
int creat(const char *name, mode_t mode) { return open(name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* `half` does half of the write, before the process is killed */
#define WRITE(descriptor, failed, call, half) \
  char path[PATH_MAX]; \
  int is_inside = by_descriptor(descriptor, path); \
  if (is_inside && action == HALF && count + 1 == at) { half; die(); } \
  CHANGE("write", is_inside, failed, call, path, "", size_of(descriptor), 0)
ssize_t write(int d, const void *b, size_t n) { NEXT(write); WRITE(d, -1, next(d, b, n), next(d, b, n / 2)); }
ssize_t pwrite(int d, const void *b, size_t n, off_t o) { NEXT(pwrite); WRITE(d, -1, next(d, b, n, o), next(d, b, n / 2, o)); }
ssize_t pwrite64(int d, const void *b, size_t n, off64_t o) { NEXT(pwrite64); WRITE(d, -1, next(d, b, n, o), next(d, b, n / 2, o)); }
ssize_t writev(int d, const struct iovec *v, int n) { NEXT(writev); WRITE(d, -1, next(d, v, n), next(d, v, n / 2)); }
ssize_t sendfile(int d, int s, off_t *o, size_t n) { NEXT(sendfile); WRITE(d, -1, next(d, s, o, n), next(d, s, o, n / 2)); }
ssize_t sendfile64(int d, int s, off64_t *o, size_t n) { NEXT(sendfile64); WRITE(d, -1, next(d, s, o, n), next(d, s, o, n / 2)); }
ssize_t copy_file_range(int s, off64_t *so, int d, off64_t *o, size_t n, unsigned f) {
  NEXT(copy_file_range);
  WRITE(d, -1, next(s, so, d, o, n, f), next(s, so, d, o, n / 2, f));
}
static size_t flushed(size_t done, FILE *file) { return fflush(file) ? 0 : done; } /* as NumPy saves */
size_t fwrite(const void *b, size_t size, size_t n, FILE *file) {
  NEXT(fwrite);
  int d = fileno(file);
  if (!n || d <= 2) return next(b, size, n, file);
  WRITE(d, 0, flushed(next(b, size, n, file), file), flushed(next(b, size, n / 2, file), file));
}

#define BY_DESCRIPTOR(kind, call, size, synced) \
  char path[PATH_MAX]; \
  int is_inside = by_descriptor(d, path); \
  CHANGE(kind, is_inside, -1, call, path, "", size, synced)
int fsync(int d) { NEXT(fsync); BY_DESCRIPTOR("fsync", next(d), 0, 1); }
int fdatasync(int d) { NEXT(fdatasync); BY_DESCRIPTOR("fsync", next(d), 0, 1); }
int ftruncate(int d, off_t n) { NEXT(ftruncate); BY_DESCRIPTOR("truncate", next(d, n), n, 0); }
int ftruncate64(int d, off64_t n) { NEXT(ftruncate64); BY_DESCRIPTOR("truncate", next(d, n), n, 0); }

#define BY_NAME(kind, directory, call, size) \
  char path[PATH_MAX]; \
  int is_inside = by_name(directory, name, path); \
  CHANGE(kind, is_inside, -1, call, path, "", size, 0)
int truncate(const char *name, off_t n) { NEXT(truncate); BY_NAME("truncate", AT_FDCWD, next(name, n), n); }
int mkdir(const char *name, mode_t m) { NEXT(mkdir); BY_NAME("mkdir", AT_FDCWD, next(name, m), 0); }
int mkdirat(int d, const char *name, mode_t m) { NEXT(mkdirat); BY_NAME("mkdir", d, next(d, name, m), 0); }
int unlink(const char *name) { NEXT(unlink); BY_NAME("unlink", AT_FDCWD, next(name), 0); }
int rmdir(const char *name) { NEXT(rmdir); BY_NAME("rmdir", AT_FDCWD, next(name), 0); }
int unlinkat(int d, const char *name, int f) {
  NEXT(unlinkat);
  BY_NAME(f & AT_REMOVEDIR ? "rmdir" : "unlink", d, next(d, name, f), 0);
}
int remove(const char *name) { return unlink(name) && errno == EISDIR ? rmdir(name) : 0; }

#define TWO_NAMES(kind, d, e, call) \
  char path[PATH_MAX], other[PATH_MAX]; \
  int is_inside = by_name(d, from, path) | by_name(e, to, other); \
  CHANGE(kind, is_inside, -1, call, path, other, 0, 0)
int rename(const char *from, const char *to) { NEXT(rename); TWO_NAMES("rename", AT_FDCWD, AT_FDCWD, next(from, to)); }
int renameat(int d, const char *from, int e, const char *to) { NEXT(renameat); TWO_NAMES("rename", d, e, next(d, from, e, to)); }
int renameat2(int d, const char *from, int e, const char *to, unsigned f) { NEXT(renameat2); TWO_NAMES("rename", d, e, next(d, from, e, to, f)); }
int link(const char *from, const char *to) { NEXT(link); TWO_NAMES("link", AT_FDCWD, AT_FDCWD, next(from, to)); }
int linkat(int d, const char *from, int e, const char *to, int f) { NEXT(linkat); TWO_NAMES("link", d, e, next(d, from, e, to, f)); }
int symlink(const char *from, const char *to) { NEXT(symlink); TWO_NAMES("symlink", AT_FDCWD, AT_FDCWD, next(from, to)); }
int symlinkat(const char *from, int e, const char *to) { NEXT(symlinkat); TWO_NAMES("symlink", AT_FDCWD, e, next(from, e, to)); }

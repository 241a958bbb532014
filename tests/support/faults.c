/* A library to be preloaded: calls of the operating system on files fail, or take long, as a file says.
 *
 *   FROGLET_FAULTS   a file of lines:  CALL MODE ARGUMENT PART-OF-THE-PATH
 *
 *   CALL   write (pwrite and write), read (pread and read), fdatasync, fsync, open (to create), rename, ftruncate, unlink
 *   MODE   fail ERRNO    the call fails, and nothing is done
 *          torn ERRNO    of a write the first half is done, then it fails
 *          late ERRNO    after half a second it fails
 *          short 0       of a write the first half is done: the caller has to go on
 *          sleep MS      the call takes so long, and is done
 *
 * The file is looked at with every call, so a test changes it as it goes on (by a rename). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum mode { NONE, FAIL, TORN, SHORT };

#define REAL(name)                    \
  static __typeof__(&name) real;      \
  if (!real) real = dlsym(RTLD_NEXT, #name)

static int real_open(const char *path, int flags) {
  REAL(open);
  return real(path, flags);
}

/* What is to happen to a call on a path; errno is set where it is to fail. */
static enum mode fault(const char *call, const char *path) {
  const char *file = getenv("FROGLET_FAULTS");
  if (!file) return NONE;
  int fd = real_open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NONE;
  char text[4096];
  ssize_t n = syscall(SYS_read, fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return NONE;
  text[n] = 0;
  char *line, *rest = text;
  while ((line = strtok_r(rest, "\n", &rest))) {
    char name[32], mode[32], part[512];
    int argument;
    if (sscanf(line, "%31s %31s %d %511s", name, mode, &argument, part) != 4) continue;
    if (strcmp(name, call) || !strstr(path, part)) continue;
    if (!strcmp(mode, "sleep")) {
      usleep(argument * 1000);
      continue;
    }
    if (!strcmp(mode, "short")) return SHORT;
    if (!strcmp(mode, "late")) usleep(500 * 1000);
    errno = argument;
    return strcmp(mode, "torn") ? FAIL : TORN;
  }
  return NONE;
}

static enum mode fault_of(const char *call, int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return NONE;
  path[n] = 0;
  return fault(call, path);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  return fault_of("fdatasync", fd) ? -1 : real(fd);
}

int fsync(int fd) {
  REAL(fsync);
  return fault_of("fsync", fd) ? -1 : real(fd);
}

static ssize_t put(int fd, const void *bytes, size_t n, off_t at, int positioned) {
  REAL(pwrite64);
  static __typeof__(&write) real_write;
  if (!real_write) real_write = dlsym(RTLD_NEXT, "write");
  enum mode mode = fd > 2 ? fault_of("write", fd) : NONE;
  int error = errno;
  if (mode == FAIL) return -1;
  if (mode == TORN || (mode == SHORT && n > 1)) n /= 2;
  ssize_t done = positioned ? real(fd, bytes, n, at) : real_write(fd, bytes, n);
  if (mode == TORN) {
    errno = error;
    return -1;
  }
  return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at) { return put(fd, bytes, n, at, 1); }
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { return put(fd, bytes, n, at, 1); }
ssize_t write(int fd, const void *bytes, size_t n) { return put(fd, bytes, n, 0, 0); }

static int get_fails(int fd) { return fd > 2 && fault_of("read", fd) == FAIL; }

ssize_t pread64(int fd, void *bytes, size_t n, off_t at) {
  REAL(pread64);
  return get_fails(fd) ? -1 : real(fd, bytes, n, at);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at) { return pread64(fd, bytes, n, at); }

ssize_t read(int fd, void *bytes, size_t n) {
  REAL(read);
  return get_fails(fd) ? -1 : real(fd, bytes, n);
}

int ftruncate64(int fd, off_t n) {
  REAL(ftruncate64);
  return fault_of("ftruncate", fd) ? -1 : real(fd, n);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return fault("rename", to) ? -1 : real(from, to);
}

int unlink(const char *path) {
  REAL(unlink);
  return fault("unlink", path) ? -1 : real(path);
}

int open64(const char *path, int flags, ...) {
  REAL(open64);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) && fault("open", path)) return -1;
  return real(path, flags, mode);
}

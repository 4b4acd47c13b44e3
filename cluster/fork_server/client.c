/* SPDX-FileCopyrightText: 2026 The Manta authors */
/* SPDX-License-Identifier: Apache-2.0 */
/* What the raylet starts in Python's place: hands a worker over to the fork server and ends.
 *
 * Anything else, and a worker that the fork server does not take, is run by Python itself. The
 * format of a request is in requests.py; client.py does the same where there is no C compiler. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { TIMEOUT_S = 60, STANDARD_DESCRIPTORS = 3 };
static const char WORKER[] = "/default_worker.py";

extern char **environ;

static int is_worker(int count, char **arguments) {
  if (count < 2) return 0;
  size_t length = strlen(arguments[1]), end = strlen(WORKER);
  return length >= end && !strcmp(arguments[1] + length - end, WORKER);
}

/* The connection, or -1. */
static int connected(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct timeval timeout = {.tv_sec = TIMEOUT_S};
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) ||
      connect(fd, (struct sockaddr *)&address, sizeof address)) {
    close(fd);
    return -1;
  }
  return fd;
}

/* Send the header with the standard descriptors beside it. */
static int sent_header(int fd, const uint32_t *header, size_t size) {
  int descriptors[STANDARD_DESCRIPTORS] = {0, 1, 2};
  char control[CMSG_SPACE(sizeof descriptors)] = {0};
  struct iovec part = {(void *)header, size};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptors);
  memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
  return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)size;
}

static int sent(int fd, const char *from, size_t size) {
  while (size) {
    ssize_t count = send(fd, from, size, MSG_NOSIGNAL);
    if (count <= 0) return 0;
    from += count;
    size -= (size_t)count;
  }
  return 1;
}

/* Ask for the process; tell whether it is there. */
static int is_handed_over(const char *path, int count, char **arguments) {
  char folder[4096];
  if (!getcwd(folder, sizeof folder)) return 0;
  size_t size = strlen(folder) + 1;
  uint32_t variables = 0;
  for (int i = 0; i < count; i++) size += strlen(arguments[i]) + 1;
  for (char **each = environ; *each; each++, variables++) size += strlen(*each) + 1;
  char *body = malloc(size), *end = body;
  if (!body || size > UINT32_MAX) return 0;
  end = stpcpy(end, folder) + 1;
  for (int i = 0; i < count; i++) end = stpcpy(end, arguments[i]) + 1;
  for (char **each = environ; *each; each++) end = stpcpy(end, *each) + 1;
  uint32_t header[3] = {(uint32_t)size, (uint32_t)count, variables};
  int32_t pid = 0;
  int fd = connected(path);
  int is_there = fd >= 0 && sent_header(fd, header, sizeof header) && sent(fd, body, size) &&
                 recv(fd, &pid, sizeof pid, MSG_WAITALL) == sizeof pid && pid > 0;
  if (fd >= 0) close(fd);
  free(body);
  return is_there;
}

int main(int count, char **arguments) {
  const char *path = getenv("MANTA_FORK_SERVER"), *python = getenv("MANTA_FORK_SERVER_PYTHON");
  if (path && is_worker(count, arguments) && is_handed_over(path, count, arguments)) return 0;
  if (!python) return 127;
  /* Nor does a forked process have them: what it starts is not the raylet's. */
  unsetenv("MANTA_FORK_SERVER");
  unsetenv("MANTA_FORK_SERVER_PYTHON");
  arguments[0] = (char *)python;
  execv(python, arguments);
  return 127;
}

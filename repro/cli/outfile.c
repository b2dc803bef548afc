#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_MAX_FILES = 256, TRIES = 100 };

/* Read by the signal handler. A name is written before its pointer is and outlives it. */
static char *volatile temporaries[OPEN_MAX_FILES];

static void on_signal(int number)
{
    for (int i = 0; i < OPEN_MAX_FILES; i++)
        if (temporaries[i])
            unlink(temporaries[i]);
    /* SA_RESETHAND: this ends the program, with the status that its caller expects of a signal. */
    raise(number);
}

void outfile_init(void)
{
    static const int fatal[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND }, old;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(fatal[i], &action, NULL);
    /* A file size limit is to be an error of write(), not the end. */
    signal(SIGXFSZ, SIG_IGN);
}

static void forget(struct outfile *out)
{
    if (out->temporary)
        temporaries[out->slot] = NULL;
    free(out->path);
    free(out->target);
    free(out->temporary);
    *out = (struct outfile){ .f = NULL };
}

/* Where a new file would be: the links of the folder resolved, for the file itself does not exist. */
static char *new_target(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    char *real = folder ? realpath(folder, NULL) : NULL, *target = NULL;

    if (real && (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
        errno = EISDIR;
    else if (real && asprintf(&target, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0)
        target = NULL;
    int error = errno;
    free(folder);
    free(real);
    errno = error;
    return target;
}

static int open_straight(struct outfile *out)
{
    int fd = open(out->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return -errno;
    out->f = fdopen(fd, "w");
    if (!out->f) {
        int error = errno;
        close(fd);
        return -error;
    }
    return 0;
}

static int open_temporary(struct outfile *out)
{
    const int folder_len = (int)(strrchr(out->target, '/') - out->target);
    int fd = -1;
    char *name = NULL;

    for (out->slot = 0; out->slot < OPEN_MAX_FILES && temporaries[out->slot]; out->slot++)
        ;
    if (out->slot == OPEN_MAX_FILES)
        return -EMFILE;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        if (asprintf(&name, "%.*s/.kvrepro.%ld.%d.tmp", folder_len, out->target, (long)getpid(), i) < 0)
            return -ENOMEM;
        temporaries[out->slot] = name;
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) {
            int error = errno;
            temporaries[out->slot] = NULL;
            free(name);
            if (error != EEXIST)
                return -error;
        }
    }
    if (fd < 0)
        return -EEXIST;
    out->temporary = name;
    out->f = fdopen(fd, "w");
    if (out->f)
        return 0;
    int error = errno;
    close(fd);
    unlink(name);
    return -error;
}

int outfile_open(struct outfile *out, const char *path)
{
    struct stat st;
    int rc = 0;

    *out = (struct outfile){ .path = strdup(path) };
    if (!out->path)
        return -ENOMEM;
    if (strcmp(path, "-") == 0) {
        out->f = stdout;
        return 0;
    }
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        rc = -EISDIR;
    else if (exists && access(path, W_OK) != 0)
        rc = -errno;
    else if (exists && !S_ISREG(st.st_mode))
        rc = open_straight(out);
    else if (!(out->target = exists ? realpath(path, NULL) : new_target(path)))
        rc = -errno;
    else
        rc = open_temporary(out);
    if (rc)
        forget(out);
    return rc;
}

int outfile_commit(struct outfile *out)
{
    int rc = 0;

    if (fflush(out->f) != 0 || ferror(out->f))
        rc = errno ? -errno : -EIO;
    if (out->f == stdout) {
        forget(out);
        return rc;
    }
    if (rc == 0 && out->temporary && fsync(fileno(out->f)) != 0)
        rc = -errno;
    if (fclose(out->f) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && out->temporary && rename(out->temporary, out->target) != 0)
        rc = -errno;
    if (rc && out->temporary)
        unlink(out->temporary);
    forget(out);
    return rc;
}

void outfile_discard(struct outfile *out)
{
    if (!out->f)
        return;
    if (out->f != stdout)
        fclose(out->f);
    if (out->temporary)
        unlink(out->temporary);
    forget(out);
}

#include "jobs.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSORS_MAX = 1024 };

struct running {
    pid_t pid; /* 0: not running */
    int out, said;
};

uint32_t jobs_processors(void)
{
    cpu_set_t set;
    int len = 0;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        len = CPU_COUNT(&set);
    return len < 1 ? 1 : len > PROCESSORS_MAX ? PROCESSORS_MAX : (uint32_t)len;
}

__attribute__((noreturn)) static void be_job(const struct jobs *set, uint32_t idx, const struct running *r,
                                             pid_t parent)
{
    static const int handled[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

    /* The program's own handlers take its unfinished files away, which are not ours. */
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++)
        signal(handled[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(r->said, STDOUT_FILENO) < 0 || dup2(r->said, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    FILE *out = fdopen(r->out, "w");
    int status = out ? set->work(set->ctx, idx, out) : EXIT_FAILURE;
    if (out && (fflush(out) != 0 || ferror(out)))
        status = EXIT_FAILURE;
    fflush(stdout);
    fflush(stderr);
    /* What the program has still in its buffers, or would do at its end, is done by the program. */
    _exit(status);
}

static int start(const struct jobs *set, uint32_t idx, struct running *r)
{
    pid_t parent = getpid();

    *r = (struct running){ .out = memfd_create("job", MFD_CLOEXEC), .said = memfd_create("job", MFD_CLOEXEC) };
    fflush(stdout);
    fflush(stderr);
    pid_t pid = r->out < 0 || r->said < 0 ? -1 : fork();
    if (pid == 0)
        be_job(set, idx, r, parent);
    if (pid > 0) {
        r->pid = pid;
        return 0;
    }
    int error = errno;
    if (r->out >= 0)
        close(r->out);
    if (r->said >= 0)
        close(r->said);
    *r = (struct running){ .pid = 0 };
    return -error;
}

static char *read_back(int fd)
{
    off_t len = lseek(fd, 0, SEEK_END);
    char *text = len < 0 ? NULL : malloc((size_t)len + 1);
    size_t at = 0;

    while (text && at < (size_t)len) {
        ssize_t n = pread(fd, text + at, (size_t)len - at, (off_t)at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (text)
        text[at] = '\0';
    close(fd);
    return text;
}

static void end(struct job *job, struct running *r, int status)
{
    int len = 0;

    job->out = read_back(r->out);
    job->said = read_back(r->said);
    if (WIFSIGNALED(status))
        len = asprintf(&job->why, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        len = asprintf(&job->why, "ended with exit status %d", WEXITSTATUS(status));
    if (len < 0)
        job->why = NULL;
    *r = (struct running){ .pid = 0 };
}

static void fail(struct job *job, int error)
{
    if (asprintf(&job->why, "no process could be started: %s", strerror(error)) < 0)
        job->why = NULL;
}

int jobs_run(const struct jobs *set, struct job *jobs)
{
    struct running *running = calloc(set->len ? set->len : 1, sizeof *running);
    uint32_t next = 0, done = 0, active = 0;

    memset(jobs, 0, set->len * sizeof *jobs);
    if (!running)
        return -ENOMEM;
    while (done < set->len) {
        while (next < set->len && active < set->at_once) {
            int rc = start(set, next, &running[next]);
            /* Short of processes or files: as many as run by now are as many as can. */
            if (rc && active > 0)
                break;
            if (rc) {
                fail(&jobs[next], -rc);
                done++;
            } else {
                active++;
            }
            next++;
        }
        if (active == 0)
            continue;
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            break;
        for (uint32_t i = 0; pid > 0 && i < next; i++)
            if (running[i].pid == pid) {
                end(&jobs[i], &running[i], status);
                active--;
                done++;
                if (set->progress)
                    set->progress(set->ctx, done, set->len);
                break;
            }
    }
    free(running);
    return done == set->len ? 0 : -ECHILD;
}

void jobs_free(struct job *jobs, uint32_t len)
{
    for (uint32_t i = 0; jobs && i < len; i++) {
        free(jobs[i].out);
        free(jobs[i].said);
        free(jobs[i].why);
    }
}

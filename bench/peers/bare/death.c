/* What learning of a death takes on this machine without a library: processes of bare C that wait, each at a word of shared memory which the
 * kernel marks when another one dies. Nothing is made sure of, drained or told to others.
 *
 * usage: death FILE SURVIVORS KILLS MEGABYTES poll|sleep
 *
 * For each kill the victim is a new process with so much memory of its own, which holds a word for each survivor as a robust futex. The survivors
 * read their words in a loop, or sleep at them. Appends to the file the times from the kill to each survivor in ns, a line for each kill.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 4096

static struct shared {
    struct {
        struct robust_list link; /* of the victim's list; the word lies at a fixed distance */
        _Atomic uint32_t word;
        char rest[48];
    } at[MOST];
    _Atomic int ready, seen; /* processes that wait, survivors that have seen the death */
    int64_t saw[MOST];
} *shared;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000LL * t.tv_sec + t.tv_nsec;
}

static void rest(long us) { nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); }

static void survive(int i, int polls) {
    _Atomic uint32_t *word = &shared->at[i].word;
    shared->ready++;
    for (uint32_t w; !((w = *word) & FUTEX_OWNER_DIED);)
        if (!polls)
            syscall(SYS_futex, word, FUTEX_WAIT, w, NULL, NULL, 0);
    shared->saw[i] = now();
    shared->seen++;
    for (;;) /* its end would take a core from the others */
        pause();
}

static void die(int n, size_t bytes) {
    static struct robust_list_head head;
    char *memory = malloc(bytes + 1);
    if (!memory)
        _exit(1);
    memset(memory, 1, bytes);
    head.list.next = &shared->at[0].link;
    head.futex_offset = (char *)&shared->at[0].word - (char *)&shared->at[0].link;
    for (int i = 0; i < n; i++) {
        shared->at[i].link.next = i + 1 < n ? &shared->at[i + 1].link : &head.list;
        shared->at[i].word = (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS;
    }
    if (syscall(SYS_set_robust_list, &head, sizeof head))
        _exit(1);
    shared->ready++;
    for (;;)
        pause();
}

/* start forks a process, which has a core to itself if all can have one. */
static pid_t start(int number, int processes) {
    pid_t first = getpid(), child = fork();
    if (child < 0) {
        perror("death: fork");
        exit(1);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != first)
            _exit(1);
        cpu_set_t cores;
        if (sched_getaffinity(0, sizeof cores, &cores) == 0 && processes <= CPU_COUNT(&cores)) {
            for (int core = 0;; core++)
                if (CPU_ISSET(core, &cores) && number-- == 0) {
                    CPU_ZERO(&cores);
                    CPU_SET(core, &cores);
                    break;
                }
            sched_setaffinity(0, sizeof cores, &cores);
        }
    }
    return child;
}

int main(int argc, char **argv) {
    int n, kills, file;
    if (argc != 6 || (file = open(argv[1], O_WRONLY | O_APPEND)) < 0 || (n = atoi(argv[2])) < 1 || n > MOST || (kills = atoi(argv[3])) < 1) {
        fprintf(stderr, "death: want a FILE that can be written, SURVIVORS, at most %d, KILLS, MEGABYTES and poll or sleep\n", MOST);
        return 2;
    }
    size_t bytes = (size_t)atoi(argv[4]) << 20;
    int polls = !strcmp(argv[5], "poll");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("death: mmap");
        return 1;
    }
    for (int k = 0; k < kills; k++) {
        pid_t survivors[MOST];
        shared->ready = shared->seen = 0;
        pid_t victim = start(0, n + 1);
        if (victim == 0)
            die(n, bytes);
        while (shared->ready < 1)
            rest(100);
        for (int i = 0; i < n; i++)
            if ((survivors[i] = start(1 + i, n + 1)) == 0)
                survive(i, polls);
        while (shared->ready < 1 + n)
            rest(100);
        rest(5000 + rand() % 5000);
        int64_t at = now();
        kill(victim, SIGKILL);
        while (shared->seen < n)
            rest(1000);
        for (int i = 0; i < n; i++)
            kill(survivors[i], SIGKILL);
        while (wait(NULL) > 0 || errno == EINTR)
            ;
        for (int i = 0; i < n; i++)
            dprintf(file, "%lld%c", (long long)(shared->saw[i] - at), i + 1 < n ? ' ' : '\n');
    }
    return 0;
}

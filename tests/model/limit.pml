/* A limit of one: begin, wait in the line, end, look. jobs.pml has the way of the jobs, and lease.pml the deaths.
   docs/internals/model.md says which code each step stands for, and what is left out.

   Two daemons, two jobs with the limit, and a program with a block of code under it. Daemon 0 may fail. The server may be
   away until all leases have expired.

   A mend is taken out by the name in an #ifdef. */

#include "wrong.pml"

#ifndef FAULTS
#define FAULTS 1        /* replies that are lost, and commands that arrive late */
#endif

#define JOBS 2
#define BLOCK 2         /* the place of the block, beside those of jobs 0 and 1 */
#define LIMIT 1

#define NAME(d, life) ((d) + 2 * (life))        /* the identities of the daemons: 0 and 2, 1 and 3 */
#define ME NAME(d, life[d])
#define PROGRAM 4                               /* the identity of the program */
#define AS(name) (name == PROGRAM -> 2 : (name) % 2), (name == PROGRAM -> 1 : (name) / 2 + 1)   /* 0:1, 0:2, 1:1, 1:2, 2:1 */
#define OWNERS 5
#define NOBODY 15
#define LET_GO 14                               /* of a place: its job waits in its queue */

mtype = { QUEUE, HELD, LINE, ENDED, NOWHERE,    /* where a job is */
  IDLE, FETCHED, ASKS, RUN, DONE, BACK,         /* how far a daemon has got with it. DONE and BACK are outcomes */
  LEAVES, LEFT, KILLED }                        /* of the program: its block has ended; its place is free */

/* ------------------------------------------------------------------ the server */

mtype where[JOBS] = QUEUE
byte holder[JOBS] = NOBODY                      /* the identity in whose in-progress list the job is */
byte place[3] = NOBODY                          /* who has it */
bool lease[OWNERS] = 1, owners[OWNERS] = 1, gone[OWNERS]
byte begins[OWNERS]                             /* the highest number of a begin of this identity */

/* ------------------------------------------------------------------ the daemons and the program */

typedef Runs { mtype stage[JOBS] = IDLE; byte as[JOBS] }
Runs has[2]                                     /* what a daemon has fetched, and under which name */
bool lives[2] = 1, fresh[2] = 1
byte life[2]
byte unanswered[2]                              /* begins without an answer */
mtype block = ASKS
byte block_unanswered

/* ------------------------------------------------------------------ begins that were given up */

byte late = NOBODY, late_of, late_number        /* the identity, the job or BLOCK, the number */

byte faults = FAULTS
/* One of these for each run, and more with MORE. */
bool may_crash, may_be_silent, may_be_away, may_be_killed, may_refuse
bool silent[2]                                  /* for a lease, by its own fault: only then may it be declared dead */

/* ------------------------------------------------------------------ what must hold after each step */

#define TAKEN ((place[0] != NOBODY) + (place[1] != NOBODY) + (place[BLOCK] != NOBODY))
#define RUNS_IN(d, j) (lives[d] && has[d].stage[j] == RUN && !gone[NAME(d, has[d].as[j])])
#define RUNNING (RUNS_IN(0, 0) + RUNS_IN(0, 1) + RUNS_IN(1, 0) + RUNS_IN(1, 1) + (block == RUN && !gone[PROGRAM]))
#define KEEPS(d, j) (!RUNS_IN(d, j) || place[j] == NAME(d, has[d].as[j]))

proctype Judge() {
end:
  do
  :: d_step { RUNNING > LIMIT -> WRONG("more run than the limit allows") }
  :: d_step { !KEEPS(0, 0) || !KEEPS(0, 1) || !KEEPS(1, 0) || !KEEPS(1, 1) -> WRONG("a job runs without a place of its own") }
  :: d_step { where[0] == NOWHERE || where[1] == NOWHERE -> WRONG("a job is nowhere") }
  :: d_step { block == RUN && place[BLOCK] != PROGRAM -> WRONG("a block runs without a place") }
  :: timeout && (where[0] != ENDED || where[1] != ENDED || (block != LEFT && block != KILLED)) -> WRONG("a job or a block waits for ever")
  :: timeout && TAKEN -> WRONG("a place is taken for ever")
  od
}

byte k, at                                      /* of one step only: `over` ends it */
inline over() { k = 0; at = 0 }

/* ------------------------------------------------------------------ the scripts of the server */

#define WAITS ((where[0] == LINE) + (where[1] == LINE))

inline let_go() {
  if
  :: TAKEN < LIMIT && WAITS ->
     k = (where[0] == LINE -> 0 : 1);
     where[k] = QUEUE; place[k] = LET_GO;
     printf("   server: job %d of the line may go\n", k)
  :: else
  fi
}

inline leave(p) {
  if
  :: place[p] != NOBODY -> place[p] = NOBODY; let_go()
  :: else
  fi
}

#ifdef NO_BEGIN_NUMBERS
#define IS_LATE(who, n) false
#else
#define IS_LATE(who, n) (n < begins[who])
#endif

#ifdef UNASKED_LIST
#define IS_HELD(j, who) true
#else
#define IS_HELD(j, who) (where[j] == HELD && holder[j] == who)
#endif

#define ROOM(p) (place[p] != NOBODY || (TAKEN < LIMIT && (p == BLOCK || !WAITS)))

#ifdef ROOM_BEFORE
typedef Seen { bool room[JOBS] }
Seen saw[2]
#define HAS_ROOM(j, who) saw[who % 2].room[j]
#else
#define HAS_ROOM(j, who) ROOM(j)
#endif

inline note_number(who, n) { begins[who] = (n > begins[who] -> n : begins[who]) }

#define REFUSED 2

/* Whether the job runs now. If not, it waits in the line, or is not in progress there. */
inline begin_limits(j, who, n, runs) {
  runs = 0;
  if
  :: IS_LATE(who, n) -> printf("   server: this begin comes after a later one, and does nothing\n")
  :: !IS_LATE(who, n) && !IS_HELD(j, who) -> note_number(who, n); printf("   server: job %d is not in progress there\n", j)
  :: !IS_LATE(who, n) && IS_HELD(j, who) && HAS_ROOM(j, who) ->
     note_number(who, n); place[j] = who; runs = 1;
     printf("   server: %d:%d has a place for job %d\n", AS(who), j)
  :: else ->
     note_number(who, n);
     if
     :: may_refuse ->
        may_refuse = 0; runs = REFUSED;
        printf("   server: the line takes no job: its key has a wrong type\n");
#ifdef HALF_A_MOVE
        where[j] = NOWHERE; holder[j] = NOBODY
#endif
     :: else ->
        where[j] = LINE; holder[j] = NOBODY;
        printf("   server: job %d waits in the line\n", j)
     fi
  fi
}

inline begin_block(n, runs) {
  runs = 0;
  if
  :: IS_LATE(PROGRAM, n) -> printf("   server: this begin comes after a later one, and does nothing\n")
  :: !IS_LATE(PROGRAM, n) && ROOM(BLOCK) ->
     note_number(PROGRAM, n); place[BLOCK] = PROGRAM; runs = 1;
     printf("   server: the block has a place\n")
  :: else -> note_number(PROGRAM, n)
  fi
}

#ifdef FREE_WITHOUT_PROOF
#define IS_DEAD(who) (!lease[who])
#else
#define IS_DEAD(who) (gone[who] || (!owners[who] && !lease[who]))
#endif

/* ------------------------------------------------------------------ the threads */

proctype Job(byte d, j) {
  byte runs;
end:
  do
  :: d_step { lives[d] && has[d].stage[j] == IDLE && where[j] == QUEUE && lease[ME] ->
       where[j] = HELD; holder[j] = ME; has[d].stage[j] = FETCHED; has[d].as[j] = life[d];
       printf("daemon %d fetches job %d as %d:%d\n", d, j, AS(ME)) }
  :: d_step { has[d].stage[j] == FETCHED && (fresh[d] || has[d].as[j] != life[d]) ->
       if
       :: has[d].as[j] == life[d] ->
          has[d].stage[j] = ASKS
#ifdef ROOM_BEFORE
          ; saw[d].room[j] = ROOM(j); printf("daemon %d looks for room for job %d\n", d, j)
#endif
       :: else -> has[d].stage[j] = IDLE; has[d].as[j] = 0; printf("daemon %d leaves job %d to others\n", d, j)
       fi }
  :: atomic { has[d].stage[j] == ASKS ->
       d_step {
         printf("daemon %d asks for a place for job %d\n", d, j);
         begin_limits(j, NAME(d, has[d].as[j]), unanswered[d], runs) }
       if
       :: d_step {
            has[d].stage[j] = (runs == REFUSED -> BACK : (runs -> RUN : IDLE)); has[d].as[j] = (runs -> has[d].as[j] : 0);
            runs = 0; over() }
       :: d_step { d == 0 && faults ->
            faults--; unanswered[d]++; has[d].stage[j] = BACK; runs = 0; over();
            printf("daemon %d: the reply is lost, and it gives the job back\n", d) }
       fi }
  :: d_step { has[d].stage[j] == ASKS && d == 0 && faults && late == NOBODY ->
       faults--;
       printf("daemon %d asks for a place for job %d, and gives up: the command is still on its way; it gives the job back\n", d, j);
       late = NAME(d, has[d].as[j]); late_of = j; late_number = unanswered[d];
       unanswered[d]++; has[d].stage[j] = BACK }
  :: d_step { has[d].stage[j] == RUN ->
       has[d].stage[j] = DONE; printf("daemon %d ends its run of job %d\n", d, j) }
  :: d_step { has[d].stage[j] == DONE || has[d].stage[j] == BACK ->
       printf("daemon %d settles job %d\n", d, j);
       if
       :: where[j] == HELD && holder[j] == NAME(d, has[d].as[j]) ->
          where[j] = (has[d].stage[j] == DONE -> ENDED : QUEUE); holder[j] = NOBODY; leave(j)
       :: else ->
          printf("   server: %d:%d does not hold job %d any more\n", AS(NAME(d, has[d].as[j])), j)
#ifdef EFFECTS_ANYWAY
          ; leave(j)
#endif
       fi;
       has[d].stage[j] = IDLE; has[d].as[j] = 0; over() }
  od
}

proctype Block() {
  byte runs;
end:
  do
  :: atomic { block == ASKS && TAKEN < LIMIT ->         /* else it asks again */
       d_step {
         printf("the program asks for a place for its block\n");
         begin_block(block_unanswered, runs) }
       if
       :: d_step { block = (runs -> RUN : ASKS); runs = 0; over() }
       :: d_step { faults ->
            faults--; block_unanswered++; block = LEAVES; runs = 0; over();
            printf("the program: the reply is lost\n") }
       fi }
  :: d_step { block == ASKS && faults && late == NOBODY ->
       faults--; late = PROGRAM; late_of = BLOCK; late_number = block_unanswered; block_unanswered++; block = LEAVES;
       printf("the program asks for a place for its block, and gives up: the command is still on its way\n") }
  :: d_step { block == RUN -> block = LEAVES; printf("the block ends\n") }
  :: d_step { block == LEAVES ->
       printf("the program frees the place of its block\n");
       note_number(PROGRAM, block_unanswered); leave(BLOCK); block = LEFT; over() }
  :: d_step { may_be_killed && block != LEFT -> may_be_killed = 0; block = KILLED; printf("the program is killed\n") }
  :: d_step { !lease[PROGRAM] && block != KILLED -> lease[PROGRAM] = 1; printf("the program beats\n") }
  od
}

proctype Heart(byte d) {
end:
  do
  :: d_step { lives[d] && (!fresh[d] || !lease[ME]) && !gone[ME] ->
       fresh[d] = 1; lease[ME] = 1; owners[ME] = 1; silent[d] = 0;
       printf("daemon %d beats as %d:%d\n", d, AS(ME)) }
  :: d_step { lives[d] && gone[ME] && life[d] == 0 ->
       life[d] = 1; fresh[d] = 1; lease[ME] = 1; owners[ME] = 1; silent[d] = 0;
       printf("daemon %d beats, and hears that it was declared dead; it goes on as %d:%d\n", d, AS(ME)) }
  :: d_step { d == 0 && lives[d] && may_be_silent ->
       may_be_silent = 0; fresh[d] = 0; lease[ME] = 0; silent[d] = 1;
       printf("daemon %d is silent for longer than its lease\n", d) }
  :: d_step { d == 0 && lives[d] && may_crash ->
       may_crash = 0; lives[d] = 0; fresh[d] = 0;
       has[d].stage[0] = IDLE; has[d].as[0] = 0; has[d].stage[1] = IDLE; has[d].as[1] = 0;
       printf("daemon %d is killed\n", d) }
  od
}

#define HAS_DIED(name) (name == PROGRAM -> block == KILLED : !lives[0] || (!lease[name] && silent[0]))

/* Daemon 1 looks after daemon 0, whose names are 0 and 2, and after the program. */
proctype Recoverer(byte name) {
end:
  do
  :: d_step { fresh[1] && owners[name] && !gone[name] && HAS_DIED(name) ->
       gone[name] = 1; lease[name] = 0;
       printf("daemon 1 declares %d:%d dead\n", AS(name)); over() }
  /* With the effects of a job that had begun, if the entry of the dead daemon says that it may have begun. */
  :: d_step { gone[name] && (holder[0] == name || holder[1] == name) ->
       at = (holder[0] == name -> 0 : 1);
       printf("daemon 1 moves job %d of %d:%d back to the queue, and frees its place\n", at, AS(name));
       where[at] = QUEUE; holder[at] = NOBODY; leave(at); over() }
  :: d_step { gone[name] && (holder[0] == name || holder[1] == name) ->
       at = (holder[0] == name -> 0 : 1);
       printf("daemon 1 moves job %d of %d:%d back to the queue\n", at, AS(name));
       where[at] = QUEUE; holder[at] = NOBODY; over() }
  od
}

#define IS_DEADS(p) (place[p] < OWNERS && IS_DEAD(place[p]))

inline look_at(p) {
  if
  :: IS_DEADS(p) -> printf("   server: the place of %d:%d is free\n", AS(place[p])); place[p] = NOBODY
  :: else
  fi
}

proctype Looks() {
end:
  do
  :: d_step { IS_DEADS(0) || IS_DEADS(1) || IS_DEADS(BLOCK) ->
       printf("a daemon looks at the limit\n");
       look_at(0); look_at(1); look_at(BLOCK); let_go(); over() }
  od
}

proctype Network() {
  byte runs;
end:
  do
  :: d_step { late != NOBODY ->
       printf("   server: gets a begin of %d:%d, which was given up\n", AS(late));
       if
       :: late_of == BLOCK -> begin_block(late_number, runs)
       :: else -> begin_limits(late_of, late, late_number, runs)
       fi;
       late = NOBODY; late_of = 0; late_number = 0; runs = 0; over() }
  :: d_step { may_be_away ->
       may_be_away = 0; fresh[0] = 0; fresh[1] = 0;
       lease[0] = 0; lease[1] = 0; lease[2] = 0; lease[3] = 0; lease[PROGRAM] = 0;
       printf("the server was away for longer than a lease: every lease has expired\n") }
  od
}

init {
  atomic {
    owners[2] = 0; owners[3] = 0; lease[2] = 0; lease[3] = 0;
    if
    :: may_crash = 1
    :: may_be_silent = 1
    :: may_be_away = 1
    :: may_be_killed = 1
    :: may_refuse = 1
#ifdef MORE
    :: may_crash = 1; may_be_away = 1
    :: may_be_silent = 1; may_be_away = 1
#endif
    fi;
    run Job(0, 0); run Job(0, 1); run Heart(0);
    run Job(1, 0); run Job(1, 1); run Heart(1);
    run Block(); run Recoverer(0); run Recoverer(2); run Recoverer(PROGRAM); run Looks(); run Network(); run Judge()
  }
}

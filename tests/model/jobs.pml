/* The way of a job through Redis: fetch, run, settle, give back, recover, stop.
   docs/internals/model.md says which code each step stands for, and what is left out.

   Two daemons share a queue of two jobs, whose payloads may be equal. A step of the model is one command that the server
   does, or what one thread does between two commands. Steps of all threads come in any order, and spin tries them all.
   Every step uses something up or brings a job on, so each run ends: then every job must have ended.

   A mend is taken out by the name in an #ifdef. */

#include "wrong.pml"

#ifndef FAULTS
#define FAULTS 1        /* replies that are lost, and commands that arrive late */
#endif
#ifndef REQUEUES
#define REQUEUES 1      /* jobs that are given back, or fail and are tried again */
#endif

#ifdef MORE
#define ROOM(d) 2       /* how many jobs a daemon holds at a time */
#else
#define ROOM(d) ((d) == 0 -> 2 : 1)
#endif

#ifdef MORE
#define LOSES(d) (faults > 0)
#else
#define LOSES(d) (faults > 0 && (d) == 0)
#endif

#define JOBS 2
#define IDENTITIES 4    /* two of each daemon: it takes the second one when the first one was declared dead */
#define NAME(d, life) ((d) + 2 * (life))
#define DAEMON(name) ((name) % 2)
#define AS(name) DAEMON(name), (name) / 2 + 1    /* for people: 0:1 and 0:2, 1:1 and 1:2 */
#define ME NAME(d, life[d])
#define NOBODY 15

/* ------------------------------------------------------------------ the server */

chan queue = [JOBS + 1] of { byte }             /* payloads, the oldest first */
chan held[IDENTITIES] = [JOBS] of { byte }      /* the in-progress list of each identity, the oldest first */
byte ended                                      /* jobs that have ended and are in no list */
byte children                                   /* jobs that atomic jobs have pushed, one each */
bool lease[IDENTITIES], owners[IDENTITIES], gone[IDENTITIES]
byte receipt[2]                                 /* the number of the last batch of each settler */

/* ------------------------------------------------------------------ the daemons */

mtype = { NO_STATE, RUNS, STOPS, LEFT,          /* of a daemon. STOPS: it has got TERM. LEFT: it has declared itself dead */
  NO_STAGE, FETCHED, BEGUN, DONE, BACK,         /* of a delivery. DONE and BACK are outcomes */
  IDLE, ASKS, LOOKS, MOVES }                    /* of a thread */

typedef Delivery { mtype stage = NO_STAGE; byte life; byte payload; bool settled /* by the server */ }
typedef Deliveries { Delivery slot[2] }
Deliveries have[2]

mtype state[2] = NO_STATE
byte life[2]
bool fresh[2]                                   /* its own clock says that its lease cannot have expired */

mtype fetcher[2] = IDLE                         /* ASKS: the reply is on its way. LOOKS: has read one of two sides */
byte asked_as[2], payload_got[2]
byte known[2]                                   /* how many of each payload, see ONE */
bool doubts[2]                                  /* the last fetch has failed */

byte number[2], batch[2]                        /* of the settler; the deliveries in the batch, as bits */

mtype recoverer[2] = IDLE                       /* MOVES: it has read the list of `victim` */
byte victim[2] = NOBODY, listed[2]
#ifdef TWO_STEP_MOVE
byte in_hand[2]
#endif

/* ------------------------------------------------------------------ commands that their callers gave up */

byte late_fetch = NOBODY, late_beat = NOBODY    /* of this identity */
byte late_move = NOBODY, late_listed            /* the recovery of the list of this identity */
byte late_settler = NOBODY, late_number         /* a batch of this daemon */
typedef Item { mtype how = NO_STAGE; byte from; byte raw }
Item late_item[2]

/* ------------------------------------------------------------------ what may still go wrong */

byte faults = FAULTS, requeues = REQUEUES
bool may_crash[2], may_be_silent[2], may_stop[2]

/* ------------------------------------------------------------------ what must hold after each step */

byte earned[8]                                  /* by identity and payload: runs that have ended well, and are not settled */
#define EARNED(name, payload) earned[2 * (name) + (payload) - 1]

#define HAS(d, i) (have[d].slot[i].stage != NO_STAGE && have[d].slot[i].life == life[d])
#define MINE(d, i) (HAS(d, i) && !have[d].slot[i].settled)
#define OUT(d) (MINE(d, 0) + MINE(d, 1))
#define LIVES(d) (state[d] != NO_STATE)
#define MAY_TRUST(d) (LIVES(d) && fresh[d])
bool unearned, begun_late

#define IN_ONE_PLACE (len(queue) + len(held[0]) + len(held[1]) + len(held[2]) + len(held[3]) + ended == JOBS)
#define IS_KNOWN(name) (owners[name] || len(held[name]) == 0)
#define HOLDS_ALL(d) (!LIVES(d) || gone[NAME(d, life[d])] || len(held[NAME(d, life[d])]) >= OUT(d))
#define TRUSTS_RIGHTLY(d) (!MAY_TRUST(d) || !gone[NAME(d, life[d])])

proctype Judge() {
end:
  do
  :: d_step { !IN_ONE_PLACE -> WRONG("a job is lost or doubled, or on its way between two places") }
  :: d_step { children != ended -> WRONG("the job that an atomic job pushes is not pushed in the step of its end") }
  :: d_step { !IS_KNOWN(0) || !IS_KNOWN(1) || !IS_KNOWN(2) || !IS_KNOWN(3) -> WRONG("a job is where no recovery looks") }
  :: d_step { !HOLDS_ALL(0) || !HOLDS_ALL(1) -> WRONG("a daemon that lives has a job that is not in its list") }
  :: d_step { !TRUSTS_RIGHTLY(0) || !TRUSTS_RIGHTLY(1) -> WRONG("a daemon that may trust its lease was declared dead") }
  :: d_step { unearned -> WRONG("a job is gone that was not run to its end") }
  :: d_step { begun_late -> WRONG("a daemon begins a job after it was declared dead") }
  :: timeout && ended < JOBS && (LIVES(0) || LIVES(1)) -> WRONG("a job waits for ever")
  od
}

byte i, x, there, count, slot                   /* of one step only: `over` ends it */
inline over() { i = 0; x = 0; there = 0; count = 0; slot = 0 }

/* ------------------------------------------------------------------ the scripts of the server */

/* Counts of both payloads in one number. */
#define ONE(x) ((x) == 1 -> 1 : 4)
#define COUNT_OF(count, x) ((x) == 1 -> (count) % 4 : (count) / 4)

inline take_off(name, x) {                      /* LREM */
  if
  :: held[name]??[eval(x)] -> held[name]??eval(x); there = 1
  :: else -> there = 0
  fi
}

inline read_list(name, count) {                 /* LRANGE */
  count = 0; i = len(held[name]);
  do
  :: i > 0 -> held[name]?x; held[name]!x; count = count + ONE(x); i--
  :: else -> break
  od
}

/* `alone`: its daemon knows of no other job in this list, so it takes its job for the oldest one there. */
inline settle_item(outcome, who, bytes, alone) {
  x = bytes;
  if
#ifdef BY_PLACE
  :: alone && len(held[who]) > 0 -> held[who]?x; there = 1
  :: !alone || len(held[who]) == 0 -> take_off(who, x)
#else
  :: true -> take_off(who, x)
#endif
  fi;
  if
  :: there && outcome == DONE ->
     printf("   server: a job of %d:%d is gone\n", AS(who));
     unearned = (EARNED(who, x) == 0);
     EARNED(who, x) = EARNED(who, x) - !unearned;
#ifndef PUSH_APART
     children++;
#endif
     ended++
  :: there && outcome == BACK ->
     printf("   server: a job of %d:%d goes back to the queue\n", AS(who));
     queue!x
#ifdef PUT_UNASKED
  :: !there && outcome == BACK ->
     printf("   server: a job that %d:%d does not hold goes to the queue\n", AS(who));
     queue!x
#endif
  :: else -> printf("   server: %d:%d does not hold this job any more\n", AS(who))
  fi
}

#if defined(NO_RECEIPT)
#define IS_NEW(d, number) (true)
#elif defined(NO_NUMBERS)
#define IS_NEW(d, number) (receipt[d] != number)
#else
#define IS_NEW(d, number) (receipt[d] < number)
#endif

inline move_all(name, read) {                   /* of the jobs that were read, those that are still there */
  count = read; x = 1;
  do
  :: COUNT_OF(count, x) > 0 ->
     count = count - ONE(x);
     take_off(name, x);
     if
     :: there -> printf("   server: a job of %d:%d goes back to the queue\n", AS(name)); queue!x
     :: else
     fi
  :: COUNT_OF(count, x) == 0 && x == 1 -> x = 2
  :: COUNT_OF(count, x) == 0 && x == 2 -> break
  od
}

/* ------------------------------------------------------------------ the threads */

#define FREE(d) ((have[d].slot[0].stage == NO_STAGE) + (ROOM(d) == 2 && have[d].slot[1].stage == NO_STAGE))
#define READS(d) (state[d] == RUNS || state[d] == STOPS)

inline clear(d, at) {
  have[d].slot[at].stage = NO_STAGE; have[d].slot[at].life = 0; have[d].slot[at].payload = 0; have[d].slot[at].settled = 0
}

inline keep(d, as, x) {
  i = (have[d].slot[0].stage == NO_STAGE -> 0 : 1);
  have[d].slot[i].stage = FETCHED; have[d].slot[i].life = as; have[d].slot[i].payload = x
}

inline read_known(d, count) {
  count = (HAS(d, 0) -> ONE(have[d].slot[0].payload) : 0) + (HAS(d, 1) -> ONE(have[d].slot[1].payload) : 0)
}

inline rest(d) { fetcher[d] = IDLE; asked_as[d] = 0; payload_got[d] = 0; known[d] = 0 }

proctype Fetcher(byte d) {
end:
  do
  :: d_step { state[d] == RUNS && fetcher[d] == IDLE && FREE(d) && lease[ME] && nempty(queue) ->
       queue?x; held[ME]!x;
       fetcher[d] = ASKS; payload_got[d] = x; asked_as[d] = life[d];
       printf("daemon %d fetches as %d:%d: the server moves a job into its list\n", d, AS(ME)); over() }
  :: d_step { fetcher[d] == ASKS ->
       keep(d, asked_as[d], payload_got[d]); rest(d);
       printf("daemon %d gets the job\n", d); over() }
  :: d_step { fetcher[d] == ASKS && LOSES(d) ->
       faults--; rest(d); doubts[d] = 1;
       printf("daemon %d: the reply to its fetch is lost\n", d) }
  :: d_step { state[d] == RUNS && fetcher[d] == IDLE && FREE(d) && LOSES(d) && late_fetch == NOBODY ->
       faults--; late_fetch = ME;
       printf("daemon %d: the connection on which its fetch as %d:%d waits is half open\n", d, AS(ME)) }
#ifndef NO_RECONCILE
  /* At once after a failure, else every 10 s: here, when there is something to find. */
  :: d_step { READS(d) && fetcher[d] == IDLE && (doubts[d] || len(held[ME]) > OUT(d)) ->
#ifdef KNOWN_LAST
       read_list(ME, known[d]);
#else
       read_known(d, known[d]);
#endif
       fetcher[d] = LOOKS; asked_as[d] = life[d];
       printf("daemon %d begins to compare what it knows with its list\n", d); over() }
  :: d_step { READS(d) && fetcher[d] == LOOKS && (FREE(d) == ROOM(d) || len(held[ME]) <= OUT(d) + FREE(d)) ->
#ifdef KNOWN_LAST
       count = known[d]; read_known(d, known[d]);
#else
       if
       :: asked_as[d] != life[d] -> known[d] = 0        /* nothing was fetched under the new identity yet */
       :: else
       fi;
       read_list(ME, count);
#endif
       x = 1;
       do
       :: FREE(d) && COUNT_OF(count, x) > COUNT_OF(known[d], x) ->
          count = count - ONE(x); keep(d, life[d], x);
          printf("daemon %d finds a job in its list whose reply was lost\n", d)
       :: !(FREE(d) && COUNT_OF(count, x) > COUNT_OF(known[d], x)) ->
          if
          :: x == 1 -> x = 2
          :: else -> break
          fi
       od;
       rest(d); doubts[d] = 0; over() }
#endif
  od
}

#define STAGE have[d].slot[at].stage

proctype Worker(byte d, at) {
end:
  do
#ifdef UNASKED_BEGIN
  :: d_step { STAGE == FETCHED ->
#else
  :: d_step { STAGE == FETCHED && fresh[d] && have[d].slot[at].life == life[d] ->
#endif
       STAGE = BEGUN;
       begun_late = gone[NAME(d, have[d].slot[at].life)];
       printf("daemon %d begins a job of %d:%d\n", d, AS(NAME(d, have[d].slot[at].life))) }
  :: d_step { STAGE == FETCHED && have[d].slot[at].life != life[d] ->
       clear(d, at);
       printf("daemon %d leaves a job of its former name to others\n", d) }
  :: d_step { STAGE == BEGUN ->
       STAGE = DONE;
       EARNED(NAME(d, have[d].slot[at].life), have[d].slot[at].payload)++;
#ifdef PUSH_APART
       children++;
#endif
       printf("daemon %d ends its run of a job of %d:%d\n", d, AS(NAME(d, have[d].slot[at].life))) }
  :: d_step { STAGE == BEGUN && requeues ->
       requeues--; STAGE = BACK;
       printf("daemon %d: its run of a job of %d:%d fails, and is to be tried again\n", d, AS(NAME(d, have[d].slot[at].life))) }
  :: d_step { STAGE == FETCHED && requeues ->
       requeues--; STAGE = BACK;
       printf("daemon %d gives back a job of %d:%d that it has not begun\n", d, AS(NAME(d, have[d].slot[at].life))) }
  :: d_step { state[d] == STOPS && (STAGE == FETCHED || STAGE == BEGUN) ->
       STAGE = BACK;
       printf("daemon %d stops, and gives back a job of %d:%d\n", d, AS(NAME(d, have[d].slot[at].life))) }
  od
}

#define IN_BATCH(d, at) ((batch[d] >> (at)) & 1)
#define ENDED(d, at) (have[d].slot[at].stage == DONE || have[d].slot[at].stage == BACK)

inline settle(d) {
  if
  :: IS_NEW(d, number[d]) ->
     receipt[d] = number[d]; slot = 0;
     do
     :: slot < 2 && IN_BATCH(d, slot) ->
        settle_item(have[d].slot[slot].stage, NAME(d, have[d].slot[slot].life), have[d].slot[slot].payload,
          (have[d].slot[1 - slot].stage == NO_STAGE));
        have[d].slot[slot].settled = 1; slot++
     :: slot < 2 && !IN_BATCH(d, slot) -> slot++
     :: slot == 2 -> break
     od
  :: else -> printf("   server: has done this batch, and repeats its answer\n")
  fi
}

inline copy_item(d, at) {
  if
  :: IN_BATCH(d, at) ->
     late_item[at].how = have[d].slot[at].stage; late_item[at].from = NAME(d, have[d].slot[at].life);
     late_item[at].raw = have[d].slot[at].payload
  :: else
  fi
}

/* All that have ended, unless a batch has no answer: that is sent again as it was, under its number. */
inline collect(d) {
  if
  :: batch[d] == 0 -> number[d]++; batch[d] = ENDED(d, 0) + 2 * ENDED(d, 1)
  :: else
  fi
}

inline note_answer(d) {
  if
  :: IN_BATCH(d, 0) -> clear(d, 0)
  :: else
  fi;
  if
  :: IN_BATCH(d, 1) -> clear(d, 1)
  :: else
  fi;
  batch[d] = 0
}

proctype Settler(byte d) {
end:
  do
  :: atomic { ENDED(d, 0) || ENDED(d, 1) ->
       d_step { collect(d); printf("daemon %d settles batch %d\n", d, number[d]); settle(d); over() }
       if
       :: d_step { note_answer(d) }
       :: d_step { LOSES(d) -> faults--; printf("daemon %d: the reply is lost\n", d) }
       fi }
  :: d_step { (ENDED(d, 0) || ENDED(d, 1)) && LOSES(d) && late_settler == NOBODY ->
       faults--; collect(d);
       late_settler = d; late_number = number[d]; copy_item(d, 0); copy_item(d, 1);
       printf("daemon %d settles batch %d, and gives up: the command is still on its way\n", d, number[d]) }
#ifdef RENUMBERED
  :: d_step { batch[d] ->
       printf("daemon %d: its login is refused; it makes another batch of what is in batch %d\n", d, number[d]);
       batch[d] = 0 }
#endif
  od
}

inline beat(name) { lease[name] = 1; owners[name] = 1 }

#ifdef BEAT_REVIVES
#define REFUSED(name) false
#else
#define REFUSED(name) gone[name]
#endif

proctype Heart(byte d) {
end:
  do
  :: d_step { READS(d) && !(fresh[d] && lease[ME]) && !REFUSED(ME) ->
       beat(ME); fresh[d] = 1;
       printf("daemon %d beats as %d:%d\n", d, AS(ME)); over() }
  :: d_step { READS(d) && REFUSED(ME) && life[d] == 0 ->
       life[d] = 1; beat(ME); fresh[d] = 1;
       printf("daemon %d beats, and hears that it was declared dead; it goes on as %d:%d\n", d, AS(ME)); over() }
  :: d_step { READS(d) && !lease[ME] && !REFUSED(ME) && LOSES(d) ->
       faults--; beat(ME);
       printf("daemon %d beats as %d:%d, and the reply is lost\n", d, AS(ME)); over() }
  :: d_step { READS(d) && !fresh[d] && LOSES(d) && late_beat == NOBODY ->
       faults--; late_beat = ME;
       printf("daemon %d beats as %d:%d, and gives up: the command is still on its way\n", d, AS(ME)) }
  /* Stopped, suspended, cut off, or the server away: for as long as a daemon trusts its lease. Its threads go on when
     they can. The server's lease is longer, see lease.pml. */
  :: d_step { READS(d) && may_be_silent[d] && fresh[d] ->
       may_be_silent[d] = 0; fresh[d] = 0;
       printf("daemon %d is silent for long\n", d) }
  od
}

#define SURELY_DEAD(name) (state[DAEMON(name)] == NO_STATE)
#ifdef LOOKED_BEFORE
byte looked[2] = NOBODY
#endif

/* The recoverer of a daemon, and one of the identities that it looks at. */
proctype Recoverer(byte d, name) {
end:
  do
#ifdef LOOKED_BEFORE
  :: d_step { state[d] == RUNS && fresh[d] && looked[d] == NOBODY && owners[name] && !gone[name] && !lease[name] ->
       looked[d] = name;
       printf("daemon %d sees that %d:%d has no lease\n", d, AS(name)) }
  :: d_step { state[d] == RUNS && looked[d] == name ->
       looked[d] = NOBODY;
#else
  :: d_step { state[d] == RUNS && fresh[d] && owners[name] && !gone[name] && (!lease[name] || SURELY_DEAD(name)) ->
#endif
       gone[name] = 1; lease[name] = 0;
       printf("daemon %d declares %d:%d dead\n", d, AS(name)); over() }
  :: d_step { state[d] == RUNS && recoverer[d] == IDLE && name != ME && owners[name] && gone[name] && nempty(held[name]) ->
       read_list(name, listed[d]); recoverer[d] = MOVES; victim[d] = name;
       printf("daemon %d reads the list of %d:%d\n", d, AS(name)); over() }
#ifdef TWO_STEP_MOVE
  :: d_step { state[d] == RUNS && recoverer[d] == MOVES && victim[d] == name && !in_hand[d] && nempty(held[name]) ->
       held[name]?in_hand[d];
       printf("daemon %d takes a job off the list of %d:%d\n", d, AS(name)); over() }
  :: d_step { state[d] == RUNS && recoverer[d] == MOVES && victim[d] == name && in_hand[d] ->
       queue!in_hand[d]; in_hand[d] = 0;
       printf("daemon %d puts it into the queue\n", d); over() }
  :: d_step { state[d] == RUNS && recoverer[d] == MOVES && victim[d] == name && !in_hand[d] && empty(held[name]) ->
       recoverer[d] = IDLE; victim[d] = NOBODY; listed[d] = 0 }
#else
  :: d_step { state[d] == RUNS && recoverer[d] == MOVES && victim[d] == name ->
       printf("daemon %d moves the jobs of %d:%d\n", d, AS(name));
       move_all(name, listed[d]); recoverer[d] = IDLE; victim[d] = NOBODY; listed[d] = 0; over() }
  :: d_step { state[d] == RUNS && recoverer[d] == MOVES && victim[d] == name && faults && late_move == NOBODY ->
       faults--; late_move = name; late_listed = listed[d]; recoverer[d] = IDLE; victim[d] = NOBODY; listed[d] = 0;
       printf("daemon %d moves the jobs of %d:%d, and gives up: the command is still on its way\n", d, AS(name)) }
#endif
  od
}

inline end_threads(d) {
  state[d] = NO_STATE; fresh[d] = 0; clear(d, 0); clear(d, 1); rest(d); doubts[d] = 0; batch[d] = 0; number[d] = 0;
  recoverer[d] = IDLE; victim[d] = NOBODY; listed[d] = 0; may_be_silent[d] = 0; may_stop[d] = 0; may_crash[d] = 0
}

#define MAY_STILL_COME(name) (late_fetch == name || late_beat == name)

/* The main thread: a stop, or the end without one. */
proctype Main(byte d) {
end:
  do
  :: d_step { state[d] == RUNS && may_stop[d] ->
       may_stop[d] = 0; state[d] = STOPS;
       printf("daemon %d gets TERM\n", d) }
  :: d_step { state[d] == STOPS && FREE(d) == ROOM(d) && fetcher[d] == IDLE ->
       state[d] = LEFT; gone[ME] = 1; lease[ME] = 0; fresh[d] = 0;
       printf("daemon %d declares itself dead\n", d); over() }
  :: d_step { state[d] == STOPS && FREE(d) == ROOM(d) && fetcher[d] == IDLE && late_fetch == ME ->
       late_fetch = NOBODY;
       printf("daemon %d closes the connection of its fetch, and the server knows\n", d) }
  :: d_step { state[d] == LEFT && nempty(held[ME]) ->
       printf("daemon %d moves what is left in its list\n", d);
       read_list(ME, listed[d]); move_all(ME, listed[d]); listed[d] = 0; over() }
  :: d_step { state[d] == LEFT && empty(held[ME]) ->
       if
#ifndef LEAVE_FORGETS
       :: MAY_STILL_COME(ME) -> printf("daemon %d ends; its entry stays, because a command may still come\n", d)
       :: !MAY_STILL_COME(ME) ->
#else
       :: true ->
#endif
          owners[ME] = 0; gone[ME] = 0; printf("daemon %d ends, and takes its entry off the list of owners\n", d)
       fi;
       end_threads(d); over() }
  :: d_step { LIVES(d) && may_crash[d] ->
       end_threads(d);
       printf("daemon %d is killed\n", d); over() }
  od
}

inline settle_late() {
  slot = 0;
  do
  :: slot < 2 && late_item[slot].how != NO_STAGE ->
     settle_item(late_item[slot].how, late_item[slot].from, late_item[slot].raw, false);
     if
     :: number[late_settler] == late_number && IN_BATCH(late_settler, slot) -> have[late_settler].slot[slot].settled = 1
     :: else
     fi;
     slot++
  :: slot < 2 && late_item[slot].how == NO_STAGE -> slot++
  :: slot == 2 -> break
  od
}

inline clear_late(at) { late_item[at].how = NO_STAGE; late_item[at].from = 0; late_item[at].raw = 0 }

/* What its caller gave up may still reach the server, at any time. */
proctype Network() {
end:
  do
  :: d_step { late_fetch != NOBODY && nempty(queue) ->
       queue?x; held[late_fetch]!x;
       printf("   server: the fetch of %d:%d that was given up takes a job\n", AS(late_fetch));
       late_fetch = NOBODY; over() }
  :: d_step { late_settler != NOBODY ->
       printf("   server: gets batch %d of daemon %d, which was given up\n", late_number, late_settler);
       if
       :: IS_NEW(late_settler, late_number) -> receipt[late_settler] = late_number; settle_late()
       :: else -> printf("   server: has done this batch or a later one, and does nothing\n")
       fi;
       clear_late(0); clear_late(1); late_settler = NOBODY; late_number = 0; over() }
  :: d_step { late_beat != NOBODY ->
       printf("   server: gets a beat of %d:%d, which was given up\n", AS(late_beat));
       if
       :: REFUSED(late_beat)
       :: else -> beat(late_beat)
       fi;
       late_beat = NOBODY; over() }
  :: d_step { late_move != NOBODY ->
       printf("   server: gets the recovery of the jobs of %d:%d, which was given up\n", AS(late_move));
       move_all(late_move, late_listed); late_move = NOBODY; late_listed = 0; over() }
  od
}

/* A lease of the server ends only when its daemon trusts it no more, or has another name, or is dead. */
#define MAY_EXPIRE(name) (lease[name] && !(MAY_TRUST(DAEMON(name)) && NAME(DAEMON(name), life[DAEMON(name)]) == name))

proctype Clock(byte name) {
end:
  do
  :: d_step { MAY_EXPIRE(name) ->
       lease[name] = 0;
       printf("   server: the lease of %d:%d expires\n", AS(name)); over() }
  od
}

inline start(d) { state[d] = RUNS; fresh[d] = 1; beat(d) }
inline may_fail(d) {
  if
  :: may_crash[d] = 1
  :: may_be_silent[d] = 1
  :: may_stop[d] = 1
#ifdef MORE
  :: may_crash[d] = 1; may_be_silent[d] = 1
  :: may_stop[d] = 1; may_be_silent[d] = 1
#endif
  fi
}

init {
  atomic {
    start(0); start(1);
    may_fail(0);
#ifdef BOTH_FAIL
    may_fail(1);
#endif
    queue!1;
    if
    :: queue!1; printf("two jobs of equal payloads wait in the queue\n")
    :: queue!2; printf("two jobs wait in the queue\n");
#ifndef MORE
       requeues = 0
#endif
    fi;
    run Fetcher(0); run Worker(0, 0); run Worker(0, 1); run Settler(0); run Heart(0); run Main(0);
    run Fetcher(1); run Worker(1, 0); run Worker(1, 1); run Settler(1); run Heart(1); run Main(1);
    run Recoverer(0, 0); run Recoverer(1, 0); run Recoverer(1, 2);
    run Clock(0); run Clock(2);
#ifdef BOTH_FAIL
    run Recoverer(1, 1); run Recoverer(0, 1); run Recoverer(0, 2); run Recoverer(0, 3); run Recoverer(1, 3);
    run Clock(1); run Clock(3);
#endif
    run Network(); run Judge()
  }
}

import { readFileSync, renameSync } from 'node:fs'

/** What a crash just before and just after each durable write means. Tests kill the process there (`faultFile`). */
export const commitPoints = {
  'run.accept': 'before: the caller gets no answer and no run exists; after: the outbox starts the run',
  'outbox.deliver':
    'before: Temporal knows, the row is delivered again, the receiver ignores it; after: the row is gone',
  'run.enter': 'before: the activity runs again; after: a second entry finds the run entered',
  'step.expand': 'before: the step is expanded again; after: the stored count is returned again',
  'effect.decide':
    'before: nothing was decided, the attempt is repeated; after: decision, approval use and intent are stored, and an open intent without `effect.sent` is decided again',
  'effect.sent':
    'before: no byte of the effect has left, and a change since the decision leads to a new decision; after: bytes may have left, an unsafe call becomes unknown_outcome',
  'effect.outcome':
    'before: the intent is open, see effect.sent; after: the outcome is returned and nothing runs again',
  'effect.spend':
    'before: nothing was counted and nothing was spent; after: the highest cost of the call counts for the month, also if the worker dies, and the call is made again with its own cost',
  'step.finish': 'before: the step is counted again from its items; after: the step is finished',
  'run.finish': 'before: the run is finished again from the same rows; after: the run has ended',
  'run.cancel':
    'before: the caller gets no answer and nothing changed; after: the outbox cancels in Temporal, no new effect starts',
  'approval.vote': 'before: no vote counts; after: the vote counts, the outbox wakes the run',
  'approval.answer':
    'before: the step still waits for its answer; after: the step has its output, the outbox wakes the run',
  'approval.revise':
    'before: the call still has its former parameters; after: it has those that the person typed, no approval covers them, and the outbox wakes the run, which decides the call anew',
  'approval.expire':
    'before: the sweeper expires it later, and the clock already prevents its use; after: expired',
  'effect.resolve': 'before: the step still has an unknown outcome; after: the outbox wakes the run',
  'agent.decide':
    'before: the agent gets no answer and nothing was decided; after: the decision is stored, and the same question gets it again',
  'agent.session':
    'before: the session is unchanged; after: it is ended, revoked or alarmed, its waiting approvals are withdrawn',
  'notification.plan':
    'before: the notices stay, and the messages are planned again; after: each recipient has a row, which is sent once',
  'webhook.fan_out':
    'before: the event has no deliveries yet, and a worker writes them; after: its deliveries wait',
  'webhook.record':
    'before: the message has left, and is sent again with the same id when the lease ends; after: the attempt is counted',
  'notification.intent':
    'before: no byte of the message has left, and it is sent later; after: it may have left, and is looked for before it is sent again',
  'notification.sent':
    'before: the message is there and is found by its metadata; after: its place is known, and its end edits it',
  'notification.updated':
    'before: the message is edited again to the same text; after: it shows the newest state',
  'mail.intent':
    'before: the final dot has not left, and the mail is sent again when its lease ends; after: it may have left, and is never sent again',
  'mail.sent':
    'before: the mail has arrived, and is listed as one whose outcome is unknown; after: it is listed as sent',
  'trigger.plan':
    'before: the due time has not moved, and the next turn plans it; after: its firing waits, and becomes one run',
  'org.change': 'before: the change is not saved; after: it holds from the next decision on',
} as const
export type CommitPoint = keyof typeof commitPoints

/** Never read in production. */
const faultFile = process.env.APP_ENV === 'production' ? undefined : process.env.COUNTERSIGN_FAULT_FILE

/** Dies by SIGKILL if the fault file names this point: of several processes, the one that renames the file. */
export function faultSwitch(point: `${CommitPoint}:${'before' | 'after'}`): void {
  if (faultFile === undefined) return
  try {
    if (readFileSync(faultFile, 'utf8').trim() !== point) return
    renameSync(faultFile, `${faultFile}.fired`)
  } catch {
    return // there is no fault file, or another process has renamed it
  }
  process.kill(process.pid, 'SIGKILL')
}

export async function atCommitPoint<T>(point: CommitPoint, commit: () => Promise<T>): Promise<T> {
  faultSwitch(`${point}:before`)
  const result = await commit()
  faultSwitch(`${point}:after`)
  return result
}

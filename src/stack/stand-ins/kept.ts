import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic } from '../files.ts'

/* What was posted to the stand-ins, in the data folder, so that it is still there after a restart. */

const comment = z.object({ id: z.int(), body: z.string(), created_at: z.string() })
const issue = z.object({
  repo: z.string(),
  number: z.int(),
  title: z.string(),
  body: z.string(),
  labels: z.array(z.string()),
  created_at: z.string(),
  comments: z.array(comment),
})
const channel = z.object({
  id: z.string(),
  name: z.string(),
  is_private: z.boolean(),
  purpose: z.string(),
  created: z.int(),
})
const message = z.object({
  channel: z.string(),
  ts: z.string(),
  thread_ts: z.string().nullable(),
  text: z.string(),
  metadata: z.unknown(),
})
const schema = z.object({
  issues: z.array(issue),
  channels: z.array(channel),
  messages: z.array(message),
})

export type Kept = z.infer<typeof schema>
export type KeptIssue = Kept['issues'][number]
export type KeptChannel = Kept['channels'][number]
export type KeptMessage = Kept['messages'][number]

/** Entries of each kind. The oldest are forgotten. */
const mostKept = 500

/** Signs. GitHub takes as many, and our tools send no longer texts. */
const longest = 65_536

/** '' for anything but a text. A longer one is cut. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value.slice(0, longest) : '')

export interface Keeper {
  readonly kept: Kept
  /** Writes what has changed. Throws if the disk does not take it, so that nothing is answered that is not kept. */
  save(): void
}

export function openKeeper(dataDir: string): Keeper {
  const file = join(dataDir, 'stand-ins.json')
  const kept = read(file)
  return {
    kept,
    save() {
      for (const list of [kept.issues, kept.channels, kept.messages])
        list.splice(0, Math.max(0, list.length - mostKept))
      const newest = newestComment(kept)
      for (const { comments } of kept.issues) {
        const older = comments.findIndex(({ id }) => id > newest - mostKept)
        comments.splice(0, older === -1 ? comments.length : older)
      }
      writeFileAtomic(file, `${JSON.stringify(kept)}\n`, 0o600)
    },
  }
}

/** Its id: comments are numbered through all issues. 0: there is none. */
export const newestComment = ({ issues }: Kept): number =>
  Math.max(0, ...issues.map(({ comments }) => comments.at(-1)?.id ?? 0))

function read(file: string): Kept {
  try {
    return schema.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    return { issues: [], channels: [], messages: [] }
  }
}

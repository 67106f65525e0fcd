import type { NamedGroup } from '../../db/queries/people.ts'
import type { ExampleCall } from '../../policy/example-calls.ts'
import type { JsonObject, Verdict } from '../../policy/types.ts'
import { canonicalJson, hashOf } from '../../shared/canonical-json.ts'
import { diffOf, fieldsOf, titleOf, type Preview } from '../../tools/kit/preview.ts'
import { changeBinding } from '../sealing/bindings.ts'
import type { Seal, Sealer } from '../sealing/sealer.ts'

/* A change that waits for a second person, as its approval seals it. */

/** What `src/governance/applying/operations.ts` makes a change from. */
export interface ChangeRequest {
  readonly operation: string
  readonly given: JsonObject
}

/** A call that would be decided less strictly. */
export interface LooserExample {
  readonly call: ExampleCall
  readonly before: Verdict
  readonly after: Verdict
  /** Who must approve, in words; null for a side that needs no approval. */
  readonly terms: { readonly before: string | null; readonly after: string | null }
}

export interface PendingChange {
  readonly request: ChangeRequest
  /** A credential that comes with the request. Nobody is shown it, and no hash is made from it. */
  readonly secret: string | null
  /** The role that the change needs, of the requester and of who decides it. */
  readonly role: 'admin' | 'owner'
  /** What it would do, in one sentence. */
  readonly title: string
  /** The hash of what it changes, and of what that relies on. Another one: it changed meanwhile. */
  readonly base: string
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  /** Those that it names, with their members. Other ones: it would mean something else now. */
  readonly groups: readonly NamedGroup[]
  /** Which part could not be shown to be as strict. */
  readonly why: readonly string[]
  readonly example: LooserExample | null
}

/** The answer to a request whose change waits. */
export interface HeldChange {
  readonly change: {
    readonly id: string
    readonly status: 'pending'
    readonly why: readonly string[]
    /** A credential that counts once the change is approved, and that no other answer shows. */
    readonly token?: string
  }
}

export const heldChange = (id: string, why: readonly string[]): HeldChange => ({
  change: { id, status: 'pending', why },
})

export const isHeld = (answer: unknown): answer is HeldChange =>
  typeof answer === 'object' &&
  answer !== null &&
  Object.keys(answer).length === 1 &&
  typeof (answer as Partial<HeldChange>).change === 'object'

/** Without `undefined`, which JSON does not have. */
export const plainJson = (value: object | null): JsonObject | null =>
  JSON.parse(JSON.stringify(value)) as JsonObject | null

export const baseOf = (before: object | null, reliesOn: readonly object[]): string =>
  hashOf(plainJson({ before, reliesOn }))

export const sealChange = (seal: Seal, approvalId: string, change: PendingChange): Buffer =>
  seal(changeBinding(approvalId), canonicalJson(change))

export const openChange = async (
  sealer: Sealer,
  approvalId: string,
  sealed: Buffer,
): Promise<PendingChange> => JSON.parse(await sealer.open(changeBinding(approvalId), sealed)) as PendingChange

/** What the API shows of it, in place of parameters. */
export type ShownChange = Pick<PendingChange, 'title' | 'before' | 'after' | 'why' | 'example'> & {
  readonly groups: readonly { readonly name: string; readonly members: readonly string[] }[]
  /**
   * The id of the rule, label rule or group; the name of the tool of a policy or override; `sign_in` for the provider
   * and its tokens; `settings`; null for anything else.
   */
  readonly object: string | null
}

export const objectOf = ({ operation, given }: ChangeRequest): string | null => {
  if (operation === 'sign_in' || operation === 'scim_token') return 'sign_in'
  if (operation === 'settings') return 'settings'
  const { id, group, tool, tool_name: name } = given
  return [id, group, tool, name].find((each) => typeof each === 'string') ?? null
}

export const shownChange = ({
  title,
  before,
  after,
  groups,
  why,
  example,
  request,
}: PendingChange): ShownChange => ({
  object: objectOf(request),
  title,
  before,
  after,
  groups: groups.map(({ name, members }) => ({ name, members: Object.values(members) })),
  why,
  example,
})

const inLines = (value: JsonObject | null): string => (value === null ? '' : JSON.stringify(value, null, 2))

export const changePreview = ({ title, before, after, why, example }: ShownChange): Preview => ({
  title: titleOf(title),
  fields: fieldsOf({
    why,
    ...(example === null
      ? {}
      : {
          'example call': example.call,
          'decided now': decidedWords(example.before, example.terms.before),
          'decided then': decidedWords(example.after, example.terms.after),
        }),
  }),
  diff: diffOf(before === null ? null : inLines(before), inLines(after)),
})

const verdictWords: Readonly<Record<Verdict, string>> = {
  allow: 'allowed',
  require_approval: 'held',
  deny: 'denied',
}

const decidedWords = (verdict: Verdict, terms: string | null): string =>
  terms === null ? verdictWords[verdict] : `${verdictWords[verdict]} for ${terms}`

import type { JsonObject } from '../../policy/types.ts'
import type { ApprovalView, Form, PersonsVisit } from '../visit.ts'
import { Diff, type Sides } from './contents.tsx'
import { Field, type Filled } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { Value } from './values.tsx'
import { LongText, Words } from './words.tsx'

/* The parameters of a held call are edited: by its requester, or by an approver. */

/** What an approver wants, for the person who is to edit the call. */
export function Wanted({ approval: { edits } }: { readonly approval: ApprovalView }) {
  const asked = edits?.asked ?? null
  if (asked === null) return null
  return (
    <section aria-labelledby="wanted">
      <h2 id="wanted">What should change</h2>
      <p>
        <Words text={asked.email} /> asks:
      </p>
      <div class="vote">
        <blockquote>
          <LongText text={asked.comment} />
        </blockquote>
      </div>
    </section>
  )
}

const sides: Sides = { before: 'as it was', nothing: 'There was nothing before. ', after: 'as it is now' }

/** What differs from the approval before. */
export function Changed({ approval: { edits } }: { readonly approval: ApprovalView }) {
  const changed = edits?.changed ?? []
  if (changed.length === 0) return null
  return (
    <section aria-labelledby="changed">
      <h2 id="changed">What was edited</h2>
      {changed.map(({ name, before, after }) => (
        <div class="stack">
          <h3>
            <Words text={name} most={100} />
          </h3>
          {typeof after === 'string' && (before === undefined || typeof before === 'string') ? (
            <Diff diff={{ before: before ?? null, after, skipped: 0 }} sides={sides} />
          ) : (
            <>
              {before === undefined ? null : <p class="quiet small">As it was:</p>}
              {before === undefined ? null : <Value value={before} />}
              <p class="quiet small">As it is now:</p>
              <Value value={after ?? null} />
            </>
          )}
        </div>
      ))}
    </section>
  )
}

/** The page has fields for parameters that the call has. Programs may add others. */
const editable = ({ may_edit, params = {} }: ApprovalView): readonly string[] =>
  may_edit.filter((name) => Object.hasOwn(params, name))

/** The fields of the form, as a browser sends them back. */
const shownIn = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value, null, 2)

const sentBack = (text: string): string => text.replaceAll('\r\n', '\n').replace(/^\n/, '')

const fieldOf = (name: string): string => `params.${name}`

/** The values that differ from those of the approval. JSON that cannot be read is sent as text, which the API refuses. */
export function editsIn(approval: ApprovalView, form: Form): JsonObject {
  const params = (approval.params ?? {}) as JsonObject
  return Object.fromEntries(
    editable(approval).flatMap((name) => {
      const typed = form.get(fieldOf(name))
      const present = params[name] ?? null
      if (typed === null || sentBack(typed) === sentBack(shownIn(present))) return []
      const text = typed.replaceAll('\r\n', '\n')
      return [[name, typeof present === 'string' ? text : parsed(text)]]
    }),
  )
}

function parsed(text: string): JsonObject[string] {
  try {
    return JSON.parse(text) as JsonObject[string]
  } catch {
    return text
  }
}

const rowsFor = (text: string): number =>
  Math.min(12, Math.max(1, Math.ceil(text.length / 60), text.split('\n').length))

export function EditForm(props: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
  readonly filled: Filled
  /** The page shows only the beginning of the parameters. */
  readonly isCut: boolean
}) {
  const { approval, visit, filled, isCut } = props
  const names = editable(approval)
  const isRequester = approval.kind === 'revision'
  if (isCut || names.length === 0)
    return (
      <p class="note">
        {isCut ? 'The parameters are too long for a form. ' : 'The page has no field for this call. '}
        Edit them with <code>{`POST /api/v1/approvals/${approval.id}/revise`}</code>.
      </p>
    )
  return (
    <PostForm action={`/console/approvals/${approval.id}`} token={visit.token} class="stack">
      <OnceField />
      {names.map((name) => (
        <Param name={name} approval={approval} filled={filled} />
      ))}
      <Field
        name="comment"
        id="edit-comment"
        label="Comment"
        rows={1}
        most={2000}
        optional
        filled={filled}
        {...(isRequester ? {} : { help: 'The person who confirms it reads it.' })}
      />
      <div class="buttons">
        <button name="decision" value="revise" class="primary">
          {isRequester ? 'Ask again with these values' : 'Propose these values'}
        </button>
      </div>
      <p class="quiet small">
        {isRequester
          ? 'The rules decide about these values anew. To give up, cancel the run.'
          : 'The edit is your vote. The person who asked, or another approver, must confirm it.'}
      </p>
    </PostForm>
  )
}

function Param(props: { readonly name: string; readonly approval: ApprovalView; readonly filled: Filled }) {
  const { name, approval, filled } = props
  const value = shownIn(approval.params?.[name])
  const written = approval.edits?.written[name]
  return (
    <Field
      name={fieldOf(name)}
      id={`edit-${name}`}
      label={name}
      rows={rowsFor(value)}
      value={value}
      optional
      filled={filled}
      {...(typeof written === 'string' && written.includes('{{')
        ? { help: `The workflow has here: ${written.length > 300 ? `${written.slice(0, 300)}…` : written}` }
        : {})}
    />
  )
}

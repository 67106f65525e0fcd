import type { VNode } from 'preact'
import type { Form, PersonsVisit, Problem, Result } from '../visit.ts'
import { Copy } from './copy.tsx'
import { Confirm, empty, Seen, type Filled } from './form.tsx'
import { Island } from './island.tsx'
import { PostForm } from './layout.tsx'

/* A rule as text, as files have it. The fields and the text are two forms, so each may be as long as a form can be. */

/** Characters. More is neither shown nor read here. */
const most = 64 * 1024

const ofSaved = new Set(['id', 'organization_id', 'created_by', 'created_at', 'updated_at', 'managed_by'])

/** Without what only a saved rule has. */
export const ruleBodyOf = (rule: object): object =>
  Object.fromEntries(Object.entries(rule).filter(([field]) => !ofSaved.has(field)))

export const textOf = ({ api }: PersonsVisit, rule: object): string | null => {
  const text = api.writeYaml(ruleBodyOf(rule))
  return text.length > most ? null : text
}

export const RuleText = ({ text }: { text: string | null }) =>
  text === null ? null : (
    <details class="exact">
      <summary>The rule as text (YAML)</summary>
      <pre class="code-text">{text}</pre>
    </details>
  )

/** The form of the fields, the form of the text, and the deletion. `children`: the fields; `more`: further buttons. */
export function ChangeRule(props: {
  visit: PersonsVisit
  path: string
  rule: { readonly updated_at: string }
  filled: Filled
  /** What is then no more. */
  deletion: string
  more?: VNode
  isChecked: boolean
  children: (filled: Filled) => VNode
}) {
  const { visit, path, rule, filled, deletion, more, isChecked, children: fields } = props
  const isText = filled.form?.has('text') === true
  // The text that was refused says nothing about the fields.
  const given = isText ? { ...filled, ...empty } : filled
  return (
    <>
      <section class="card" aria-labelledby="change">
        <h2 id="change">Change it</h2>
        <PostForm action={path} token={visit.token} class="fill" data-check={isChecked}>
          <Seen value={rule.updated_at} filled={given} />
          {fields(given)}
          <div class="buttons">
            <button class="primary" name="action" value="save">
              Save the rule
            </button>
            {more}
          </div>
        </PostForm>
        <EditableText
          action={path}
          token={visit.token}
          text={textOf(visit, rule)}
          updatedAt={rule.updated_at}
          filled={isText ? filled : empty}
        />
      </section>
      <Confirm
        action={path}
        token={visit.token}
        value="delete"
        open="Delete the rule …"
        explanation={`${deletion} You can restore the rule from its versions.`}
        sure="Delete the rule"
      />
    </>
  )
}

function EditableText(props: {
  action: string
  token: string
  /** null for one that is too long. */
  text: string | null
  updatedAt: string
  filled: Filled
}) {
  const { action, token, text, updatedAt, filled } = props
  if (text === null) return null
  return (
    <details class="exact" open={filled.form !== null}>
      <summary>The rule as text (YAML)</summary>
      <PostForm action={action} token={token} class="fill">
        <Seen value={updatedAt} filled={filled} />
        <label for="text">Text</label>
        <textarea
          id="text"
          name="text"
          class="code"
          rows={14}
          maxlength={most}
          spellcheck={false}
          autocomplete="off"
          aria-describedby="text-help"
        >
          {filled.form?.get('text') ?? text}
        </textarea>
        <p id="text-help" class="quiet small">
          As <code>countersign apply</code> reads it. “Save the text” saves what stands here. What you have
          changed in the fields above, and not saved, is lost.
        </p>
        <div class="buttons">
          <button name="action" value="save-text">
            Save the text
          </button>
          <Island of={Copy} props={{ from: 'text' }} />
        </div>
      </PostForm>
    </details>
  )
}

const noRule: Problem & { readonly ok: false } = {
  ok: false,
  status: 422,
  code: 'validation_error',
  message: 'the text is no rule: write its fields, such as `name: …`, one in each line',
}

/** The route says which fields are wrong. */
export function ruleInText({ api }: PersonsVisit, form: Form): Result<object> {
  const read = api.readYaml((form.get('text') ?? '').replaceAll('\r\n', '\n'))
  if (!read.ok) return read
  const body: unknown = read.body.definition
  return typeof body === 'object' && body !== null && !Array.isArray(body) ? { ok: true, body } : noRule
}

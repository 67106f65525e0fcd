import type { Form, PersonsVisit, Problem, Result } from '../visit.ts'
import { Copy } from './copy.tsx'
import { empty, Seen, type Filled } from './form.tsx'
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

const isText = ({ form }: Filled): boolean => form?.has('text') === true

/** For the form of the fields: the text that was refused says nothing about them. */
export const filledFields = (filled: Filled): Filled => (isText(filled) ? { ...filled, ...empty } : filled)

export function EditableText(props: {
  action: string
  token: string
  /** null for one that is too long. */
  text: string | null
  updatedAt: string
  filled: Filled
}) {
  const { action, token, text, updatedAt } = props
  if (text === null) return null
  const filled = isText(props.filled) ? props.filled : empty
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

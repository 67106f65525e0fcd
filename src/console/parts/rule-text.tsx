import type { Form, PersonsVisit, Problem, Result } from '../visit.ts'
import { Copy } from './copy.tsx'
import type { Filled } from './form.tsx'
import { Island } from './island.tsx'

/* A rule as text, as files have it. The form or the text is saved, and what was typed into the other one stays on the page. */

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

/** Stands in the form of the rule. */
export function EditableText({ text, filled }: { text: string | null; filled: Filled }) {
  if (text === null) return null
  const isOpen = filled.form?.get('action') === 'save-text'
  return (
    <details class="exact" open={isOpen}>
      <summary>The rule as text (YAML)</summary>
      <div class="stack">
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
          As <code>countersign apply</code> reads it. “Save the text” saves what stands here, and leaves the
          fields above aside; “Save the rule” saves the fields.
        </p>
        <div class="buttons">
          <button name="action" value="save-text" formnovalidate>
            Save the text
          </button>
          <Island of={Copy} props={{ from: 'text' }} />
        </div>
      </div>
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

import type { AnswerOf } from '../../api/routes/index.ts'
import { rulesPath, toolPath } from '../../contract/pages.ts'
import type { InputDeclaration } from '../../contract/inputs.ts'
import type { PersonsVisit } from '../visit.ts'
import { Field, type Filled } from './form.tsx'
import { InputFields, type Declared } from './inputs.tsx'
import { PostForm } from './layout.tsx'
import { Badge, type Tone } from './state.tsx'
import { Message, Words } from './words.tsx'

/* A call of a tool is asked about, and not made. */

export type Tool = AnswerOf<'GET /tools/{name}'>
export type Trial = AnswerOf<'POST /tools/{name}/try'>

/** The name of the parameters in the body of the route. */
export const at = 'params'

interface Schema {
  readonly type?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly maxLength?: number
}

/** The fields of the form, from the JSON Schema of the tool's parameters. What has no single type is written as JSON. */
export function declaredOf({ params }: Pick<Tool, 'params'>): Declared {
  const { properties, required } = params as {
    readonly properties?: Readonly<Record<string, Schema>>
    readonly required?: readonly string[]
  }
  return Object.fromEntries(
    Object.entries(properties ?? {}).map(([name, schema]): [string, InputDeclaration] => {
      const { type = 'object', description, enum: options } = schema
      const known = type === 'integer' ? 'number' : type
      return [
        name,
        {
          type: known as InputDeclaration['type'],
          required: required?.includes(name) === true,
          ...(description === undefined ? {} : { description: description.replaceAll('`', '') }),
          ...(options === undefined ? {} : { options: options.map(String) }),
          ...((schema.maxLength ?? 0) > 1_000 ? { format: 'text' as const } : {}),
        },
      ]
    }),
  )
}

export function TryForm(props: { tool: Tool; visit: PersonsVisit; filled: Filled }) {
  const { tool, visit, filled } = props
  return (
    <section class="card" aria-labelledby="try">
      <h2 id="try">Try a call</h2>
      <p>It says what would be decided if you made this call in a workflow. Nothing is called.</p>
      <PostForm action={`${toolPath(tool.name)}#tried`} token={visit.token} class="fill">
        <InputFields declared={declaredOf(tool)} at={at} filled={filled} />
        <Field
          name="labels"
          optional={true}
          most={4_000}
          help="What the values are labelled with, such as confidential. Separate them by commas."
          filled={filled}
        />
        <button class="primary" name="action" value="try">
          Ask what would be decided
        </button>
      </PostForm>
    </section>
  )
}

const verdicts: Readonly<Record<Trial['verdict'], readonly [Tone, string]>> = {
  allow: ['good', 'Allowed'],
  require_approval: ['hold', 'Held for a person'],
  deny: ['bad', 'Denied'],
}

export function Tried({ trial }: { trial: Trial }) {
  const { step, not_executable_because: refused } = trial
  const [tone, word] = verdicts[trial.verdict]
  const why = [
    step.frozen,
    step.role_policy?.explanation ?? null,
    step.available ? null : step.unavailable_because,
    ...step.checked_during_call,
  ].filter((each) => each !== null)
  const isPlain = why.length === 0 && step.rules.length === 0
  return (
    <section class="note stack" role="status" aria-labelledby="tried">
      <h2 id="tried">
        This call would be: <Badge tone={tone} word={word} />
      </h2>
      {isPlain && refused === null ? <p>No rule and no policy says anything about it.</p> : null}
      {isPlain && refused !== null ? (
        <p>
          <Message text={refused} />
        </p>
      ) : null}
      <ul class="bullets">
        {why.map((each) => (
          <li>
            <Message text={each} />
          </li>
        ))}
        {(step.frozen === null ? step.rules : []).map(({ rule_id: id, name, because, shadow }) => (
          <li>
            {shadow ? 'In shadow, so it decides nothing: the rule ' : 'The rule '}
            <a href={`${rulesPath}/${id}`}>
              <Words text={name} most={200} />
            </a>
            : <Message text={because} />
          </li>
        ))}
      </ul>
    </section>
  )
}

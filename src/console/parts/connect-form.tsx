import type { AnswerOf } from '../../api/routes/index.ts'
import { isAtLeast, type Form, type PersonsVisit } from '../visit.ts'
import { Field, Select, type Filled, type Labels } from './form.tsx'
import { capital } from './words.tsx'

/* The fields of a credential, made from the JSON Schema of its service. */

export type Service = AnswerOf<'GET /services'>['data'][number]

interface Schema {
  readonly type?: string
  readonly description?: string
  readonly const?: string
  readonly writeOnly?: boolean
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
}

interface Asked {
  /** In the credential. */
  readonly name: string
  readonly help: string | undefined
  readonly isRequired: boolean
  readonly isSecret: boolean
  /** A file of JSON, pasted. */
  readonly isLong: boolean
}

/** One of the forms of a credential. */
export interface Way {
  readonly title: string
  readonly given: Readonly<Record<string, string>>
  readonly fields: readonly Asked[]
}

/** Without a credential: the service asks in the browser. */
export const byBrowser: Way = { title: 'In the browser', given: {}, fields: [] }

export function waysOf({ credential, browser }: Service): readonly Way[] {
  const schema = credential as Schema
  const typed = (schema.oneOf ?? schema.anyOf ?? [schema]).map(wayOf)
  return browser ? [byBrowser, ...typed] : typed
}

function wayOf({ properties = {}, required = [] }: Schema): Way {
  const all = Object.entries(properties)
  const given = Object.fromEntries(all.flatMap(([name, { const: fixed }]) => (fixed === undefined ? [] : [[name, fixed]]))) // prettier-ignore
  const fields = all
    .filter(([, { const: fixed }]) => fixed === undefined)
    .map(([name, { type, description, writeOnly }]) => ({
      name,
      help: description?.replaceAll('`', ''),
      isRequired: required.includes(name),
      isSecret: writeOnly === true,
      isLong: type !== 'string',
    }))
  return { title: titleOf(given, fields), given, fields }
}

/** By what it always has, else by its first field. */
const titleOf = (given: Way['given'], fields: readonly Asked[]): string =>
  capital(Object.values(given)[0] ?? wordsOf(fields[0]?.name ?? ''))

const words: Labels = {
  base_url: 'Base address',
  api_key: 'API key',
  client_id: 'Client id of your own OAuth app',
  service_account: 'Key file of a service account',
  from: 'Sender',
  email: 'E-mail address of the account',
}
const wordsOf = (name: string): string => words[name] ?? capital(name.replaceAll('_', ' '))

const at = 'credential'

export const labelsOfWay = ({ fields }: Way): Labels => ({
  name: 'Name of the connection',
  scope: 'Whose runs use it',
  ...Object.fromEntries(fields.map(({ name }) => [`${at}.${name}`, wordsOf(name)])),
})

/** An optional address is another one than the service's own, which needs an admin. */
const isElsewhere = ({ name, isRequired }: Asked): boolean => name === 'base_url' && !isRequired

/** `filled` has the labels. */
export function CredentialFields({ way, filled, visit }: { way: Way; filled: Filled; visit: PersonsVisit }) {
  const isAdmin = isAtLeast(visit, 'admin')
  const elsewhere = way.fields.filter(isElsewhere)
  const isOpen = elsewhere.some(({ name }) => (filled.form?.get(`${at}.${name}`) ?? '') !== '')
  return (
    <>
      {way.fields.filter((each) => !isElsewhere(each)).map((each) => one(each, filled))}
      {isAdmin ? (
        <Select
          name="scope"
          options={[
            ['personal', 'Only mine'],
            ['organization', 'Everybody’s, unless they have an own connection'],
          ]}
          filled={filled}
        />
      ) : (
        <input type="hidden" name="scope" value="personal" />
      )}
      <Field
        name="name"
        most={200}
        optional
        help="Optional. Without one, it has the name of the service and the account."
        filled={filled}
      />
      {isAdmin && elsewhere.length > 0 ? (
        <details open={isOpen}>
          <summary class="button">Another address than the service’s own</summary>
          <div class="stack">
            {elsewhere.map((each) => one(each, filled))}
            <p class="quiet small">The operator must allow its host first.</p>
          </div>
        </details>
      ) : null}
    </>
  )
}

const one = ({ name, help, isRequired, isSecret, isLong }: Asked, filled: Filled) => (
  <Field
    name={`${at}.${name}`}
    label={`${wordsOf(name)}${isRequired || name === 'base_url' ? '' : ' (optional)'}`}
    {...(help === undefined ? {} : { help })}
    {...(isRequired ? {} : { optional: true as const })}
    {...(isLong ? { rows: 6 } : isSecret ? { type: 'password' as const, autocomplete: 'new-password' } : {})}
    filled={filled}
  />
)

/** null for the way by the browser. */
export function credentialOf(way: Way, form: Form): Readonly<Record<string, string>> | null {
  if (way === byBrowser) return null
  const typed = way.fields.flatMap(({ name }) => {
    const value = (form.get(`${at}.${name}`) ?? '').trim()
    return value === '' ? [] : [[name, value]]
  })
  return { ...way.given, ...Object.fromEntries(typed) }
}

/** A refused form comes back without its secrets. */
export function withoutSecrets(way: Way, form: Form): Form {
  const kept = new URLSearchParams(form)
  for (const { name, isSecret } of way.fields) if (isSecret) kept.delete(`${at}.${name}`)
  return kept
}

import type { AnswerOf } from '../../api/routes/index.ts'
import { providerPath } from '../../contract/pages.ts'
import { Confirm, Field, labelled, onceOf, type Filled } from '../parts/form.tsx'
import { actions } from '../parts/list.tsx'
import { secretPage } from '../parts/secret.tsx'
import { ShortList } from '../parts/short-list.tsx'
import { Time } from '../parts/time.tsx'
import { Words } from '../parts/words.tsx'
import { waitsFor, type Form, type PersonsVisit, type Result, type Shown } from '../visit.ts'

/* The tokens of `/console/provider`, with which the directory of the company sends SCIM. */

type Token = AnswerOf<'GET /organizations/{id}/scim-tokens'>['data'][number]

/** All of them: an organization has at most five. */
export async function scimTokensOf({ api }: PersonsVisit, id: string): Promise<readonly Token[]> {
  const listed = await api.call('GET /organizations/{id}/scim-tokens', { params: { id } })
  return listed.ok ? listed.body.data : []
}

export function ScimTokens(props: {
  visit: PersonsVisit
  tokens: readonly Token[]
  address: string
  filled: Filled
}) {
  const { visit, tokens, address, filled } = props
  return (
    <ShortList
      id="directory"
      title="Your directory"
      about={
        <>
          <p>
            Directories such as Okta and Entra ID add and remove people and groups here (SCIM 2.0). Give yours
            this address, and a token of the organization:
          </p>
          <p>
            <code class="whole">{address}</code>
          </p>
        </>
      }
      none={{ title: 'There is no token.', words: 'Make one after you have proven a domain.' }}
      head={['Name', 'Made by', 'Used', 'Ends', actions]}
      rows={tokens.map((token) => rowOf(token, visit))}
      form={{
        action: providerPath,
        token: visit.token,
        title: 'New token',
        button: ['token-create', 'Create the token'],
      }}
    >
      <Field
        name="token_name"
        most={100}
        help="Such as “Okta”. The token ends after half a year, and stays when its maker leaves."
        filled={filled}
      />
    </ShortList>
  )
}

function rowOf(token: Token, { token: formToken, now }: PersonsVisit) {
  const { id, name, last_used_at: used, expires_at: end } = token
  return [
    <Words text={name} most={100} />,
    <Words text={token.created_by_email} most={254} />,
    used === null ? 'never' : <Time at={used} now={now} />,
    <Time at={end} now={now} />,
    <Confirm
      action={providerPath}
      token={formToken}
      value="token-end"
      open={`End ${name} …`}
      explanation="The directory is refused at once. People and groups stay as they are."
      sure="End the token"
    >
      <input type="hidden" name="scim_token" value={id} />
    </Confirm>,
  ]
}

export function endScimToken({ api }: PersonsVisit, form: Form, id: string): Promise<Result<unknown>> {
  const params = { id, token: form.get('scim_token') ?? '' }
  return api.call('DELETE /organizations/{id}/scim-tokens/{token}', { params })
}

interface Waiting {
  readonly change: { readonly token: string }
}

export async function createScimToken(
  { api }: PersonsVisit,
  form: Form,
  id: string,
): Promise<Filled | { readonly page: Shown }> {
  const made = await api.call('POST /organizations/{id}/scim-tokens', {
    params: { id },
    body: { name: form.get('token_name') ?? '' },
    ...onceOf(form),
  })
  if (!made.ok) return labelled({ form, problem: made }, { token_name: 'Name' }, { name: 'token_name' })
  const approval = waitsFor(made.body)
  const { token } = approval === null ? made.body : (made.body as unknown as Waiting).change
  const page = secretPage({
    title: 'Your new token',
    label: 'The token',
    secret: token,
    before:
      approval === null ? null : (
        <p class="note" role="status">
          It counts once another owner has approved it: <a href={approval}>what waits</a>.
        </p>
      ),
    after: (
      <p>
        <a href={providerPath}>Back to the company sign-in</a>
      </p>
    ),
  })
  return { page }
}

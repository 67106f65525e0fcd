import type { AnswerOf } from '../../api/routes/index.ts'
import { providerPath } from '../../contract/pages.ts'
import { Copy } from '../parts/copy.tsx'
import { Confirm, Field, labelled, onceOf, type Filled } from '../parts/form.tsx'
import { Island } from '../parts/island.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { actions, Empty, Table } from '../parts/list.tsx'
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
    <section class="stack" aria-labelledby="directory">
      <h2 id="directory">Your directory</h2>
      <p>
        Directories such as Okta and Entra ID add and remove people and groups here (SCIM 2.0). Give yours
        this address, and a token of the organization:
      </p>
      <p>
        <code class="whole">{address}</code>
      </p>
      {tokens.length === 0 ? (
        <Empty title="There is no token.">Make one after you have proven a domain.</Empty>
      ) : (
        <Table
          label="Tokens"
          head={['Name', 'Made by', 'Used', 'Ends', actions]}
          rows={tokens.map((token) => rowOf(token, visit))}
        />
      )}
      <PostForm action={providerPath} token={visit.token} class="card fill">
        <h3>New token</h3>
        <OnceField />
        <Field
          name="token_name"
          most={100}
          help="Such as “Okta”. The token ends after half a year, and stays when its maker leaves."
          filled={filled}
        />
        <button name="action" value="token-create">
          Create the token
        </button>
      </PostForm>
    </section>
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

/** The token is in this answer alone: not in an address, and browsers keep no copy. */
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
  const main = (
    <article class="page medium">
      <h1>Your new token</h1>
      {approval === null ? null : (
        <p class="note" role="status">
          It counts once another owner has approved it: <a href={approval}>what waits</a>.
        </p>
      )}
      <section class="card stack" aria-label="The token">
        <p>
          <strong>Copy it now.</strong> No other page shows it, and nobody can read it later.
        </p>
        <p class="secret">
          <code id="secret">{token}</code>
        </p>
        <Island of={Copy} props={{ from: 'secret' }} />
      </section>
      <p>
        <a href={providerPath}>Back to the company sign-in</a>
      </p>
    </article>
  )
  return { page: { status: 200, title: 'Your new token', main } }
}

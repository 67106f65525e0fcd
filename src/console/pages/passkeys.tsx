import { secondFactorPath } from '../../contract/pages.ts'
import { Field } from '../parts/form.tsx'
import { Island } from '../parts/island.tsx'
import { PostForm } from '../parts/layout.tsx'
import { PasskeyAdd } from '../parts/passkey.tsx'
import { Time } from '../parts/time.tsx'
import { Words } from '../parts/words.tsx'

/** As `GET /api/auth/passkey/list` answers. */
export interface Factors {
  readonly passkeys: readonly Passkey[]
  readonly authenticator_app: boolean
}

interface Passkey {
  readonly id: string
  readonly name: string
  readonly created_at: string
  readonly last_used_at: string | null
}

interface Shown {
  readonly token: string
  readonly place: string
  readonly factors: Factors
  readonly now: Date
}

/** The passkeys of a person, with a form that adds one. */
export function Passkeys({ shown }: { shown: Shown }) {
  const { factors, place } = shown
  const { passkeys } = factors
  return (
    <section class="stack" aria-labelledby="passkeys">
      <h2 id="passkeys">Passkeys</h2>
      <p class="small">
        With a passkey you sign in with your finger, face or PIN on your device: no password, no code.
      </p>
      {passkeys.length === 1 && !factors.authenticator_app ? (
        <p class="note">
          This passkey is your only second factor. If you lose it, only the operator of this service can let
          you in: add another one, or an authenticator app.
        </p>
      ) : null}
      {passkeys.map((passkey) => (
        <OnePasskey passkey={passkey} shown={shown} />
      ))}
      <details open={passkeys.length === 0}>
        <summary>Add a passkey</summary>
        <Island
          of={PasskeyAdd}
          props={{ place: `${secondFactorPath}?return=${encodeURIComponent(place)}` }}
        />
      </details>
    </section>
  )
}

function OnePasskey({ passkey, shown }: { passkey: Passkey; shown: Shown }) {
  const { id, name, created_at: made, last_used_at: used } = passkey
  const { token, place, now } = shown
  const hidden = (
    <>
      <input type="hidden" name="return" value={place} />
      <input type="hidden" name="passkey" value={id} />
    </>
  )
  return (
    <div class="stack">
      <p>
        <Words text={name} most={100} />
      </p>
      <p class="quiet small">
        Added <Time at={made} now={now} />,{' '}
        {used === null ? (
          'never used'
        ) : (
          <>
            last used <Time at={used} now={now} />
          </>
        )}
      </p>
      <details>
        <summary>Rename or remove</summary>
        <PostForm action={secondFactorPath} token={token} class="fill">
          {hidden}
          <Field id={`name-${id}`} name="name" label="New name" autocomplete="off" most={100} value={name} />
          <button name="action" value="rename-passkey">
            Rename
          </button>
        </PostForm>
        <PostForm action={secondFactorPath} token={token} class="fill">
          {hidden}
          <p class="quiet small">The sessions that passkeys have opened elsewhere end.</p>
          <Field
            id={`password-${id}`}
            name="password"
            label="Password"
            type="password"
            autocomplete="current-password"
            most={128}
          />
          <button class="danger" name="action" value="remove-passkey">
            Remove
          </button>
        </PostForm>
      </details>
    </div>
  )
}

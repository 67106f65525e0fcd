import { useEffect, useState } from 'preact/hooks'

/*
 * Islands that ask the browser for a passkey. Without the script, each says that a passkey needs it. They send what the
 * browser gives to the endpoints of src/api/passkeys.ts.
 */

async function ask(endpoint: string, body: object): Promise<unknown> {
  const answer = await fetch(`/api/auth/passkey/${endpoint}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const read = (await answer.json()) as { readonly message?: string }
  if (answer.ok) return read
  throw new Error(read.message ?? 'This did not work. Try again.')
}

/** The browser’s own words are not for people. */
function wordsOf(error: unknown): string {
  if (!(error instanceof DOMException)) return error instanceof Error ? error.message : 'This did not work.'
  if (error.name === 'InvalidStateError') return 'This device has a passkey of your account already.'
  if (error.name === 'SecurityError') return 'Passkeys work only at the public address of this service.'
  return 'No passkey was used. Try again, or sign in in another way.'
}

/** `can` is null until the script runs. */
function useAct(act: () => Promise<void>) {
  const [can, setCan] = useState<boolean | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    setCan(globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON !== undefined)
  }, [])
  const start = (): void => {
    setIsBusy(true)
    setProblem(null)
    act().catch((error: unknown) => {
      setProblem(wordsOf(error))
      setIsBusy(false)
    })
  }
  return { can, isBusy, problem, start }
}

const Cannot = ({ can }: { can: boolean | null }) => (
  <p class="quiet small" hidden={can === true}>
    {can === null
      ? 'A passkey needs the script of this page.'
      : 'This browser cannot use passkeys here: they need a newer browser, and an address with https.'}
  </p>
)

const Problem = ({ words }: { words: string | null }) =>
  words === null ? null : (
    <p class="alert" role="alert">
      {words}
    </p>
  )

/** An island: signs in with a passkey of this device, and opens `place`. */
export function PasskeySignIn({ place }: { readonly place: string }) {
  const { can, isBusy, problem, start } = useAct(async () => {
    const options = (await ask('begin-sign-in', {})) as PublicKeyCredentialRequestOptionsJSON
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
    await ask('sign-in', { credential: await navigator.credentials.get({ publicKey }) })
    location.assign(place)
  })
  return (
    <div class="stack">
      <Cannot can={can} />
      <Problem words={problem} />
      <button type="button" hidden={can !== true} disabled={isBusy} onClick={start}>
        Sign in with a passkey
      </button>
    </div>
  )
}

/** An island: adds a passkey of this device, and opens `place`. */
export function PasskeyAdd({ place }: { readonly place: string }) {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const { can, isBusy, problem, start } = useAct(async () => {
    const options = (await ask('begin', { password })) as PublicKeyCredentialCreationOptionsJSON
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
    await ask('add', { name, credential: await navigator.credentials.create({ publicKey }) })
    location.assign(place)
  })
  return (
    <>
      <Cannot can={can} />
      <form
        class="fill"
        hidden={can !== true}
        onSubmit={(event) => {
          event.preventDefault()
          start()
        }}
      >
        <Problem words={problem} />
        <div class="stack">
          <label for="passkey-name">Name of the passkey</label>
          <input
            id="passkey-name"
            required
            maxlength={100}
            autocomplete="off"
            aria-describedby="passkey-help"
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
          <p id="passkey-help" class="quiet small">
            Such as the name of this device.
          </p>
        </div>
        <div class="stack">
          <label for="passkey-password">Your password</label>
          <input
            id="passkey-password"
            type="password"
            required
            maxlength={128}
            autocomplete="current-password"
            value={password}
            onInput={({ currentTarget }) => setPassword(currentTarget.value)}
          />
        </div>
        <button disabled={isBusy}>Add a passkey</button>
      </form>
    </>
  )
}

import { crashHome, govern, type CrashHome } from '../../support/chaos.ts'

/** The stack that the parts of whole-stack.test.ts share, one after another. */
export let home: CrashHome
/** The governed workflow: its mail is held. */
export let workflowId: string

export async function openHome(): Promise<void> {
  home = await crashHome()
  workflowId = await govern(home)
}

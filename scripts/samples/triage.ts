import { mustHold } from '../../src/demo/show.ts'
import { answers, repo } from './data.ts'
import { runToEnd, saveWorkflow, type Session } from './session.ts'

/**
 * Issues are rated by a language model, and an overview is written as an issue, after a person has read it. The worker
 * dies right after the request: the issue is looked for, found, and not made again.
 */
export async function triage(session: Session): Promise<void> {
  const { tell, changes, services, tag } = session
  tell.step('Triage: open issues are rated by a language model, and an overview is posted')
  await changes.save('rules', {
    name: `sample ${tag}: strangers' words are read before they are posted`,
    verdict: 'require_approval',
    tools: ['github_create_issue'],
    labels: { any_of: ['untrusted'] },
    params: [{ param: 'repo', operator: 'equals', value: repo }],
  })
  const workflow = await saveWorkflow(session, 'triage-issues')
  const requests = loseOneAnswer(session)
  const { run, heldSteps } = await runToEnd(session, workflow, { inputs: { repo } })
  mustHold(heldSteps.includes('post'), 'the rule held the issue')
  mustHold(
    services.prompts().length === 4,
    'the model was asked once for each issue, and once for the overview',
  )

  tell.step('The answer was lost while the issue was created. It exists once')
  mustHold(requests.sent === 1, `the request was sent once (it was sent ${requests.sent} times)`)
  mustHold(requests.looks > 0, 'the issue was looked for')
  const [made, ...more] = (await services.issues()).filter(({ title }) => title.startsWith('Triage of '))
  mustHold(made !== undefined && more.length === 0, 'the repository has one overview')
  mustHold(made.body?.startsWith(answers['Order these ratings']) === true, 'it has the words of the model')
  mustHold(
    (run.result as { url?: unknown }).url === made.html_url,
    'the run reports the issue that was found',
  )
  tell.line(`sent once, looked for, found: #${made.number} ${made.title}, with the hidden marker of its call`)
}

/** The next request that creates an issue is carried out, and its answer is lost. Counts requests from then on. */
function loseOneAnswer({ stack, services, tell }: Session): { sent: number; looks: number } {
  const requests = { sent: 0, looks: 0 }
  services.proxy.choose = (method, path) => {
    const isOfIssues = path.split('?', 1)[0]?.endsWith('/issues') === true
    if (isOfIssues && method === 'GET' && requests.sent > 0) requests.looks += 1
    if (!isOfIssues || method !== 'POST') return 'pass'
    requests.sent += 1
    if (requests.sent > 1) return 'pass'
    return {
      lost() {
        tell.line('GitHub has created the issue, and its answer is on the way ...')
        stack.killWorker?.()
        tell.line(
          stack.killWorker === null
            ? '... when the connection breaks (this stack ran before, so its worker is not killed)'
            : '... when the worker is killed with SIGKILL',
        )
      },
    }
  }
  return requests
}

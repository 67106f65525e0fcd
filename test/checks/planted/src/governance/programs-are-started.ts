import '../programs/worker.ts'

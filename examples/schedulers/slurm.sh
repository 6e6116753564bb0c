#!/bin/bash
# A job that Slurm may take off its nodes and start again: sbatch slurm.sh. The folder has job.toml, the program and
# the certificates, and all nodes see it. job.toml says shared_folder = true under [cluster].
#SBATCH --job-name=paceline
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --no-kill

# Two minutes before the time is over, Slurm sends USR1 to this script alone. srun passes USR1 on to the tasks, which
# stop with a checkpoint. At SIGTERM srun would kill them.
stop_and_requeue() {
  requeue=yes
  kill -USR1 "$step"
}
trap stop_and_requeue USR1
trap 'kill -USR1 "$step"' TERM

srun --no-kill --kill-on-bad-exit=0 paceline node job.toml --set checkpoint.on_signal=stop &
step=$!
# A signal interrupts wait; the run writes its checkpoint meanwhile.
wait "$step"
while kill -0 "$step" 2>/dev/null; do
  wait "$step"
done
# The step may have ended as a signal came. This wait has its status all the same.
wait "$step"
status=$?
# At 0 the run is done, and at 2 it has failed. Started once more, a run that is done would begin anew.
if [ "${requeue:-no}" = yes ] && [ "$status" != 0 ] && [ "$status" != 2 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"


# The names of the locks that are held, where a verb takes a name.
for verb in run elect hold try wait inspect release ls
    complete -c leasehold -f -n "__fish_leasehold_using_subcommand $verb; and not contains -- -- (commandline -opc)" \
        -a '(timeout 2 leasehold -qq ls --names -- (commandline -ct) 2>/dev/null)'
end


# The options in front that name the store.
function __leasehold_store
    set -l words (commandline -opc)
    while set -q words[1]
        switch $words[1]
            case -u --url -p --profile --config
                printf '%s\n' $words[1..2]
                set -e words[1]
            case '--url=*' '--profile=*' '--config=*'
                printf '%s\n' $words[1]
        end
        set -e words[1]
    end
end

# The names of the locks that are held, where a verb takes a name.
for verb in run elect hold try wait inspect release ls
    complete -c leasehold -f -n "__fish_leasehold_using_subcommand $verb; and not contains -- -- (commandline -opc)" \
        -a '(timeout 2 leasehold (__leasehold_store) -qq ls --names -- (commandline -ct) 2>/dev/null)'
end
